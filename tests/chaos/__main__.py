"""``python -m tests.chaos``; see ``trial``."""

import sys

from tests.chaos.trial import main

if __name__ == "__main__":
    sys.exit(main())
