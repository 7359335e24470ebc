"""Experiments that break things on purpose: real worker processes, a real server with its database, real sockets.

`python -m chaos` runs them and writes the results to `docs/durability.md`.
"""
