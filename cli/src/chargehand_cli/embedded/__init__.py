"""The embedded Temporal server: one per state directory, shared by its users, stopped when the last one leaves."""
