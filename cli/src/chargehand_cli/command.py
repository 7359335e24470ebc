"""Carry out a command's work on its connection."""

from collections.abc import Callable, Coroutine

import typer

from chargehand_cli.connection import Connection, decide
from chargehand_cli.embedded import Departure
from chargehand_cli.exit_codes import Exit
from chargehand_cli.interrupts import run_interruptible
from chargehand_cli.location import Wishes
from chargehand_cli.terminal import say


def connected(wishes: Wishes, work: Callable[[Connection], Coroutine[object, object, Exit]]) -> Departure:
    """Do a command's work on its connection; leaves the embedded server whatever happens."""
    connection = Connection(decide(wishes))
    departure = Departure.STILL_ENDING
    try:
        connection.begin()
        code = run_interruptible(work(connection))
    finally:
        departure = connection.end()
        if departure is Departure.STILL_ENDING:
            say("The embedded server's worker still finishes its calls, and then everything ends by itself.")
    end_with(code)
    return departure


def end_with(code: Exit) -> None:
    """Have the process end with this code, if it is not the usual one."""
    if code is not Exit.DONE:
        raise typer.Exit(code)
