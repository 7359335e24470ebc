"""A Temporal server in memory, which runs the real workflows on a virtual clock; for tests."""
