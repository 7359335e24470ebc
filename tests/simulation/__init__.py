"""A Temporal server in memory that runs our real workflow classes, and what must hold there whatever happens."""
