"""The steps of a session, in the order in which they run."""
