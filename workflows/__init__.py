"""Workflow code: deterministic decisions only. No clock, randomness, environment, I/O or model SDK."""
