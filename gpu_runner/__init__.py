"""The measurement: proves and times candidates in a sandbox; holds no settings, no network and no secret."""
