"""Where bytes survive: when to save, which second host keeps what only one has, from where each shard is taken again.

Decisions only, as pure functions of plain data. Nothing here saves, sends or reads.
"""

from checkpoint.cadence import Cadence
from checkpoint.copies import Shard, second_homes
from checkpoint.plan import Copy, Kind, Need, plan

__all__ = [
    "Cadence",
    "Copy",
    "Kind",
    "Need",
    "Shard",
    "plan",
    "second_homes",
]
