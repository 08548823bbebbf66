"""Has a language model write: briefs from what a stage knows, the search over its candidates, and what each of them came to."""
