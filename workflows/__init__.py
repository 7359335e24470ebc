"""Decides. Deterministic: no clock, randomness, environment, I/O or model SDK; only contracts and pure rules."""
