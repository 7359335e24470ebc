"""What Ctrl-C asks while a session is shown, and what is said when it is left running."""

import sys
from collections.abc import Mapping
from typing import Final, Literal

from chargehand_cli.connection import Connection
from chargehand_cli.terminal import can_ask, prompt, read_line, resume_after_interrupt, say

Choice = Literal["finish", "leave", "stop", "resume"]

_CHOICES: Final[Mapping[str, Choice]] = {"f": "finish", "l": "leave", "s": "stop", "": "resume"}
GO_ON: Final = frozenset({"finish", "resume"})
_MENU: Final = (
    "Interrupted: [f]inish now, with a report of the results so far · [l]eave it running · [s]top it · or leave empty "
    "to go on. Ctrl-C again exits at once: "
)


async def choose() -> Choice:
    """Ask what to do with the session; without a terminal, leave it running."""
    if not can_ask():
        return "leave"
    say("")
    prompt(_MENU)
    while (choice := _CHOICES.get((await read_line())[:1].lower())) is None:
        prompt("f, l, s or nothing: ")
    if choice in GO_ON:
        resume_after_interrupt()
    return choice


def leave_running(connection: Connection, session_id: str) -> None:
    follow = f"Follow it: `chargehand watch {session_id}`; stop it: `chargehand cancel {session_id}`"
    if not connection.location.is_embedded:
        say(f"The session was left running. {follow}")
    elif can_ask():
        location = connection.location
        where = ("--state-dir", str(location.state), "--task-queue", location.task_queue)
        watching = ("-P", "-m", "chargehand_cli.main", "watch", "--quiet", *where, "--", session_id)
        connection.hand_over((sys.executable, *watching))
        say(f"The session goes on in the background. {follow}")
    else:
        say(
            "The session was left unfinished. It goes on while another command runs the embedded worker; to resume it: "
            f"`chargehand watch {session_id}`"
        )
