"""The pages on which a job can be read: the list of jobs, one job with its timeline, and its artifacts."""

from service.pages.routes import Pages, pages_router

__all__ = ["Pages", "pages_router"]
