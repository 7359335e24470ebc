"""The waits of a session for people: each is an event when it begins and when it is decided, for plug-ins to tell."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime

from temporalio import workflow

from chargehand.contracts import DecisionRecord, Wait, WaitKind
from chargehand.plugins import Hook, installed
from workflows.on_exit import on_exit
from workflows.state.session import Session

_ASKS_CHARACTERS = 500


@contextmanager
def wait_for_person(session: Session, kind: WaitKind, id_: str, asks: str, until: datetime) -> Generator[None]:
    """Announce that the session waits for a person, and how that ended once the block is left.

    A nested session waits for its parent only, and a wait of the same id is announced once.
    """
    waits = session.progress.waits
    if session.request.delegation is not None or id_ in waits.open:
        yield
        return
    wait = Wait(id=id_, kind=kind, asks=" ".join(asks.split())[:_ASKS_CHARACTERS], since=workflow.now(), until=until)
    waits.begin(wait)
    _announce(session, wait, None)
    with on_exit(lambda: _announce(session, wait, waits.end(wait, workflow.now()))):
        yield


def _announce(session: Session, wait: Wait, decision: DecisionRecord | None) -> None:
    for announce in installed().functions(Hook.WAIT):
        asyncio.create_task(announce(session, wait, decision))  # noqa: RUF006  # the SDK keeps the tasks of a workflow
