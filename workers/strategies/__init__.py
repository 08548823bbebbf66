"""The catalog of strategies: how an existing kernel is made faster, as a table in code with a document each."""
