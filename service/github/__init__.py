"""GitHub as the bot uses it: authentication, a thin typed client over PyGithub, and errors that say what to do next."""
