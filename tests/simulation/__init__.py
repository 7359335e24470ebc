"""A Temporal server in memory that our real workflow classes run on, and what must hold there whatever happens."""
