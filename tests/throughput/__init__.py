"""How many webhooks the service accepts, next to a bare echo of the same server."""
