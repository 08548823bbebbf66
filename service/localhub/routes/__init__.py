"""The routes of the API by topic; each room's table says which operation is answered by which function."""

from service.localhub.routes import (
    apps,
    checks,
    git_data,
    issues,
    pulls,
    reactions,
    repositories,
    reviews,
    users,
)
from service.localhub.routes.call import Call, Handler, Reply

HANDLERS: dict[str, Handler] = (
    users.HANDLERS
    | apps.HANDLERS
    | repositories.HANDLERS
    | git_data.HANDLERS
    | issues.HANDLERS
    | reactions.HANDLERS
    | pulls.HANDLERS
    | reviews.HANDLERS
    | checks.HANDLERS
)

__all__ = ["HANDLERS", "Call", "Handler", "Reply"]
