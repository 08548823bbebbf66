"""The store: one SQL database is the truth; every change of state is a compare-and-set in a short transaction."""
