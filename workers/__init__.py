"""The production: stages, authors, layouts and the job store; talks to GitHub through nobody."""
