"""Authors: who proposes candidates. The table below is the closed vocabulary; one folder an author."""
