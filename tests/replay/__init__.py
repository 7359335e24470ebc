"""Recorded histories and the code of today."""
