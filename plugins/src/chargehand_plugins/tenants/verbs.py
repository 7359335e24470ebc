"""Watch tenants: `tenants`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import put, put_json, say
from chargehand_cli.verb import AsJson, verb

if TYPE_CHECKING:
    from chargehand_plugins.tenants.limits import TenantUsage

app = typer.Typer()


@verb(app)
async def tenants(connection: Connection, *, as_json: AsJson = False) -> None:
    """List the tenants with limits: running and waiting sessions, and the dollars of the day."""
    from chargehand_plugins.tenants.limits import tenant_usage

    await connection.open(worker=False)
    usages = await tenant_usage(connection.chargehand)
    if as_json:
        put_json("[" + ",\n ".join(each.model_dump_json() for each in usages) + "]")
        return
    if not usages:
        say("No session of a tenant with limits has run today. Limits are set by CHARGEHAND_TENANTS.")
    for usage in usages:
        for line in usage_lines(usage):
            put(line)


def usage_lines(usage: "TenantUsage") -> Iterator[str]:
    """Render a tenant's usage, and a line for each waiting session."""
    from chargehand_cli.rendering.text import dollars

    limits = usage.limits
    spent, reserved = dollars(usage.spent_usd), dollars(usage.reserved_usd)
    most = None if limits.usd_per_day is None else dollars(limits.usd_per_day)
    facts = [
        f"{len(usage.running)}{_of(limits.sessions)} running",
        f"{len(usage.queued)} waiting",
        f"{spent} spent and {reserved} reserved{_of(most)} on {usage.day}",
    ]
    if limits.sessions_per_minute is not None:
        facts.append(f"{limits.sessions_per_minute} a minute")
    yield f"{usage.tenant}: {', '.join(facts)}"
    for place, each in enumerate(usage.queued, start=1):
        yield (
            f"    {place}. {one_safe_line(each.session)}  {dollars(each.budget_usd)}  "
            f"since {each.since.astimezone():%Y-%m-%d %H:%M}"
        )


def _of(limit: object) -> str:
    return "" if limit is None else f" of {limit}"
