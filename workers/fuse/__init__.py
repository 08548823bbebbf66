"""A whole model, cut into parts by facts, each written and proved as any other problem, and put together again; docs/fusing.md."""
