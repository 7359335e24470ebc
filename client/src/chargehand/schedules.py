"""Temporal schedules that start sessions.

`start_workflow(cron_schedule=…)` and `temporal workflow start --cron` give every run the same workflow id, so only a
schedule gives each session its own id and report. Invalid arguments raise `InvalidInput`.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final, Literal

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
)
from temporalio.service import RPCError, RPCStatusCode

from chargehand.contracts import SessionRequest
from chargehand.errors import InvalidInput
from chargehand.interface import Supervisor, start_options
from chargehand.visibility import UnlessGone

Overlap = Literal["skip", "wait", "beside"]
"""What to do when a session is due while the previous one is still running."""

_POLICIES: Final[Mapping[Overlap, ScheduleOverlapPolicy]] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "wait": ScheduleOverlapPolicy.BUFFER_ONE,
    "beside": ScheduleOverlapPolicy.ALLOW_ALL,
}
_LONGEST_ID: Final = 150
"""Maximum characters of an id: session ids may have 175, and the time takes 21 of them."""
_SHORTEST: Final = timedelta(minutes=1)
_ZONE: Final = re.compile(r"[A-Za-z0-9_+/-]{1,100}")
_LONGEST: Final = timedelta(days=3_653)
_CRON: Final = re.compile(
    r"@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[A-Za-z0-9*/,?-]{1,100}( +[A-Za-z0-9*/,?-]{1,100}){4}"
)
"""The server also takes seconds and `@every 1s`, which start sessions more often than `_SHORTEST` allows."""
_MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_LAST_DAYS: Final = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def times(cron: str | None, every: timedelta | None, time_zone: str | None) -> ScheduleSpec:
    if (cron is None) == (every is None):
        raise InvalidInput("schedule: give either cron or every")
    if cron is not None:
        if not _CRON.fullmatch(cron):
            raise InvalidInput("cron: give five fields, such as '0 2 * * *', or a word such as @daily")
        if _never_comes(cron):
            raise InvalidInput(f"cron: '{cron}' never comes; give a day that one of its months has")
        if time_zone is not None and not _ZONE.fullmatch(time_zone):
            raise InvalidInput("time_zone: give a name such as Europe/Berlin")
        return ScheduleSpec(cron_expressions=[cron], time_zone_name=time_zone)
    if time_zone is not None:
        raise InvalidInput("time_zone: belongs to cron; leave it out with every")
    if every is None or not _SHORTEST <= every <= _LONGEST:
        raise InvalidInput("every: must be at least a minute, and at most ten years")
    return ScheduleSpec(intervals=[ScheduleIntervalSpec(every=every)])


def _never_comes(cron: str) -> bool:
    """Whether all days of a schedule are past the end of all its months."""
    _, _, days, months, *_ = [*cron.split(), *"****"]
    firsts = [int(first or 1) for first in re.findall(r"(?:^|,)(\d*)", days)]
    return min(firsts) > max((_LAST_DAYS.get(month, 31) for month in _months_of(months)), default=31)


def _months_of(field: str) -> Iterator[int]:
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        ends = last or ("" if step else first)
        yield from range(_month(first, 1), _month(ends, 12) + 1, max(1, int(step) if step.isdigit() else 1))


def _month(name: str, otherwise: int) -> int:
    """Read a month by its number or its name, which may be longer than three letters."""
    if name.isdigit():
        return min(int(name[:20]), 99)
    return _MONTHS.index(name[:3].upper()) + 1 if name[:3].upper() in _MONTHS else otherwise


def _check_id(schedule_id: str) -> None:
    if not schedule_id.strip() or not schedule_id.isprintable() or len(schedule_id) > _LONGEST_ID:
        raise InvalidInput(f"schedule_id: give 1 to {_LONGEST_ID} characters that can be shown")


def scheduled(
    schedule_id: str, request: SessionRequest, task_queue: str, spec: ScheduleSpec, overlap: Overlap
) -> Schedule:
    _check_id(schedule_id)
    if overlap not in _POLICIES:
        raise InvalidInput(f"overlap: must be one of {', '.join(_POLICIES)}")
    action = ScheduleActionStartWorkflow(
        Supervisor.run, request, id=schedule_id, task_queue=task_queue, **start_options(request)
    )
    return Schedule(action=action, spec=spec, policy=SchedulePolicy(overlap=_POLICIES[overlap]))


async def put_schedule(client: Client, schedule_id: str, schedule: Schedule) -> None:
    """Create a schedule, or replace the one of the same id."""
    try:
        try:
            await client.create_schedule(schedule_id, schedule)
        except ScheduleAlreadyRunningError:
            await client.get_schedule_handle(schedule_id).update(lambda _: ScheduleUpdate(schedule))
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise InvalidInput(f"schedule: {error.message}") from error
        raise


async def delete_schedule(client: Client, schedule_id: str) -> None:
    """Delete a schedule if it exists."""
    _check_id(schedule_id)
    with UnlessGone():
        await client.get_schedule_handle(schedule_id).delete()
