"""The embedded Temporal server: one per state directory, shared by its users, shut down when the last one leaves."""
