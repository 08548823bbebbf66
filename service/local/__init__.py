"""The same jobs on a local checkout, without GitHub: commits on a new branch, no push."""
