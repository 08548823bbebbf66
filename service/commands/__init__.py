"""The commands: one grammar table, a parser that reads markdown as GitHub does, and what people meant. Pure."""
