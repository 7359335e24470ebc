"""What keeps payloads from being read, lost or too large: encryption, external storage and the codec server.

All of it is off unless it is asked for. Nothing here reads the environment by itself: `settings.py` is handed one.
"""
