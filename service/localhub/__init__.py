"""GitHub on this machine, as far as the bot uses it: REST and GraphQL for PyGithub, real git, webhooks, faults, and pages."""

from service.localhub.errors import ApiError
from service.localhub.hub import Hub
from service.localhub.server import HubServer

__all__ = ["ApiError", "Hub", "HubServer"]
