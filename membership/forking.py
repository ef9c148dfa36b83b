"""Keeps gRPC from taking part in forks. It must be imported before gRPC is.

Where its core believes that a process forks to go on using gRPC, it stops its threads for the moment of each fork and
starts them in the child as well, also in one that only executes another program. Processes that start others, as hosts
do, then get errors about bad file descriptors. Who wants the old way sets the variable to 1.
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
