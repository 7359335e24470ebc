"""Experiments that break things on purpose: real worker processes, a real server on its database, real sockets.

`python -m chaos` runs them and writes what came of it to `docs/durability.md`.
"""
