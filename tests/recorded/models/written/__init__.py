"""What a model is made to answer in recorded jobs. People wrote it; no model was asked."""
