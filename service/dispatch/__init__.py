"""From what happened on GitHub to what the production is asked: commands, decisions, and the replies to both."""
