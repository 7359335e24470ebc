"""Commands at a terminal of their own, which a test types into and reads."""

import asyncio
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Terminal:
    """A terminal: the side of a test, and that of a command."""

    ours: int
    theirs: int

    async def read_until(self, words: str) -> str:
        """Read until it shows something."""
        seen = ""
        async with asyncio.timeout(60):
            while words not in seen:
                seen += (await asyncio.to_thread(os.read, self.ours, 4_096)).decode(errors="replace")
        return seen

    def type(self, line: str) -> None:
        os.write(self.ours, f"{line}\n".encode())

    async def end_of(self, running: asyncio.subprocess.Process) -> bytes:
        """Wait for the end of a command, whatever it goes on to show; returns its standard output."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self.ours, lambda: os.read(self.ours, 4_096))
        try:
            out, _ = await asyncio.wait_for(running.communicate(), 60)
        finally:
            loop.remove_reader(self.ours)
        return out
