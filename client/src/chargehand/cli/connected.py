"""Carry out a command's work on its connection."""

from collections.abc import Callable, Coroutine

import typer

from chargehand.cli.connection import Connection, decide
from chargehand.cli.exits import Exit
from chargehand.cli.interrupts import run_interruptible
from chargehand.cli.place import Wishes
from chargehand.cli.terminal import say
from chargehand.embedded import Departure


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
