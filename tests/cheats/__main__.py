"""``python -m tests.cheats``; see ``everything``."""

import sys

from tests.cheats.everything import main

if __name__ == "__main__":
    sys.exit(main())
