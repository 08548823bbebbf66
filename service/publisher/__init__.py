"""From updates to effects on GitHub: each update exactly one, whatever dies in between."""
