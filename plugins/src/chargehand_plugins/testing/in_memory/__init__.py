"""An in-memory Temporal server for tests, which runs the real workflows on a virtual clock."""
