"""Where bytes survive: when to save, which second host keeps what only one has or which hosts keep parity of it, from
where each shard is taken again, and checkpoints on disk.

`cadence`, `copies`, `stripes` and `plan` are decisions only, pure functions of plain data; `parity` computes the blocks
of stripes. `store` and `loading` are checkpoints that Orbax can read, with a checksum for every file.
"""

from checkpoint.cadence import Cadence
from checkpoint.copies import Shard, second_homes
from checkpoint.errors import BadCheckpointError, CheckpointError
from checkpoint.files import read_checked, write_durably
from checkpoint.loading import newest_whole, read_region
from checkpoint.manifest import ArrayEntry, FileEntry, Manifest
from checkpoint.parity import Codec
from checkpoint.plan import Copy, Kind, Need, plan
from checkpoint.protection import Protection
from checkpoint.regions import Region, grid_of, of_slices, whole
from checkpoint.retention import Retention
from checkpoint.store import Step, Unfinished, begin, load_manifest, steps, tidy, verify
from checkpoint.stripes import Block, Stripe, Stripes, rebuildable, stripes

__all__ = [
    "ArrayEntry",
    "BadCheckpointError",
    "Block",
    "Cadence",
    "CheckpointError",
    "Codec",
    "Copy",
    "FileEntry",
    "Kind",
    "Manifest",
    "Need",
    "Protection",
    "Region",
    "Retention",
    "Shard",
    "Step",
    "Stripe",
    "Stripes",
    "Unfinished",
    "begin",
    "grid_of",
    "load_manifest",
    "newest_whole",
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
    "write_durably",
]
