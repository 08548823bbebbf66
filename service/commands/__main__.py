"""Prints docs/commands.md: ``python -m service.commands > docs/commands.md``."""

import sys

from service.commands.docs import commands_page

sys.stdout.write(commands_page())
