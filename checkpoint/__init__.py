"""Where bytes survive: when to save, which second host keeps what only one has or which hosts keep parity of it, from
where each shard is taken again, and checkpoints on disk.

`cadence`, `copies`, `stripes` and `plan` are decisions only, pure functions of plain data; `parity` computes the blocks
of stripes. `store`, `writing` and `loading` are checkpoints that Orbax can read, with a checksum for every file.
"""

from checkpoint.cadence import BUDGET, STORE_EVERY_S, Work, cost, interval
from checkpoint.copies import Shard, second_homes
from checkpoint.dispatch import Dispatch, FileToWrite
from checkpoint.errors import BadCheckpointError, CheckpointError
from checkpoint.files import read_checked, write_durably
from checkpoint.loading import read_region, whole_steps
from checkpoint.manifest import ArrayEntry, FileEntry, Key, Manifest
from checkpoint.parity import Codec
from checkpoint.plan import Copy, Kind, Need, plan
from checkpoint.protection import Protection
from checkpoint.regions import Region, chunk_of, grid_of, of_slices, whole
from checkpoint.retention import Retention
from checkpoint.store import Step, Unfinished, begin, load_manifest, steps, tidy, verify
from checkpoint.stripes import Block, Stripe, rebuildable, stripes
from checkpoint.writing import write_region

__all__ = [
    "BUDGET",
    "STORE_EVERY_S",
    "ArrayEntry",
    "BadCheckpointError",
    "Block",
    "CheckpointError",
    "Codec",
    "Copy",
    "Dispatch",
    "FileEntry",
    "FileToWrite",
    "Key",
    "Kind",
    "Manifest",
    "Need",
    "Protection",
    "Region",
    "Retention",
    "Shard",
    "Step",
    "Stripe",
    "Unfinished",
    "Work",
    "begin",
    "chunk_of",
    "cost",
    "grid_of",
    "interval",
    "load_manifest",
    "of_slices",
    "plan",
    "read_checked",
    "read_region",
    "rebuildable",
    "second_homes",
    "steps",
    "stripes",
    "tidy",
    "verify",
    "whole",
    "whole_steps",
    "write_durably",
    "write_region",
]
