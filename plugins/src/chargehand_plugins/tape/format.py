"""The version and the bounds of a tape's file; imports nothing, for workers and for commands without one."""

from typing import Final

VERSION: Final = 1
MOST_BYTES: Final = 64_000_000
"""Of a tape. Recording stops there, and a longer tape is not read."""
MOST_LINE_BYTES: Final = 4_000_000
MOST_LINE_VALUES: Final = 100_000
MOST_LINES: Final = 20_000
