"""The chaos trial: a whole installation at work while its processes are killed and everything around it fails."""
