"""How far a value lies from the truth, and how far it may: errors by tensor, row, element and as a distribution. No I/O."""
