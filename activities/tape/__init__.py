"""Tapes: the model and tool traffic of a session, recorded to a file and replayed without a key."""
