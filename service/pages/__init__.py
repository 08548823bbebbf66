"""The pages: jobs with their timelines and artifacts, and kernels with their numbers over commits."""

from service.pages.routes import Pages, pages_router

__all__ = ["Pages", "pages_router"]
