"""Recorded histories and their replay on the current code."""
