"""GitHub on this machine, as far as the bot uses it: REST and GraphQL for PyGithub, real git, webhooks, faults, and pages."""
