"""Every sentence that the bot says: pure functions from contracts to markdown, the same answer for the same facts."""
