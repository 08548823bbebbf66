"""What stands around an installation: its images and units, and a GitHub on this machine with the demo that plays on it."""
