"""Workflow code: only deterministic decisions. No clock, randomness, environment, I/O or model SDK."""
