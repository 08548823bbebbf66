"""``python -m tests.workers.fuse.wholes [NAME]``."""

import sys

from tests.workers.fuse.wholes import main

main(sys.argv[1:])
