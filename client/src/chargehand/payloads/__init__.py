"""Payload protection: encryption and external storage.

Both are off by default. Nothing here reads the environment by itself; `settings.py` is given one.
"""
