"""`python -m elastic.cli`, for where the command `elastic` is not on the PATH."""

import sys

from elastic.cli import main

sys.exit(main())
