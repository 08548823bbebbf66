"""Migrations of the store, run by ``workers.store.database`` when a process first opens it."""
