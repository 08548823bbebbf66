"""The conversation: webhooks, commands, every sentence the bot says, and the only GitHub credentials."""
