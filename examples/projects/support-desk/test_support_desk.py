"""The rules hold, whatever the model wants: the real workflows, checks and tools, without a server or a key."""

import asyncio
from pathlib import Path

import pytest
from desk_tools import Shop, open_shop, order, refund

from chargehand import SessionRequest
from chargehand.contracts import PendingCall
from chargehand_plugins.testing import Reply, Script, ScriptedRun, answer, run_session, subtask, use

CREWS = Path(__file__).with_name("crews")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Open a shop of the test's own."""
    return Shop(str(tmp_path / "shop.sqlite"))


def _serve(shop: Shop, *calls: Reply, asked: list[PendingCall] | None = None) -> ScriptedRun:
    """Have the clerk make these calls; a person notes what is asked, and approves all but 95 euros."""

    def approve(call: PendingCall) -> bool:
        if asked is not None:
            asked.append(call)
        return call.arguments["euros"] != 95

    script = (
        Script()
        .plan(subtask("T1", "clerk", "Refund the broken order."))
        .work("Refund", *calls, answer("It is settled."))
    )
    request = SessionRequest(goal="My order came broken. Refund it.", crew="support-desk")
    running = run_session(
        request, script, crews=CREWS, tools=[order, refund], dependencies={open_shop: shop}, approve=approve
    )
    return asyncio.run(running)


def test_a_small_refund_needs_no_person(shop: Shop) -> None:
    """It is booked once, and the customer gets the clerk's own answer."""
    asked: list[PendingCall] = []
    run = _serve(shop, use("order", number="A-17"), use("refund", number="A-17", euros=38), asked=asked)

    assert (shop.refunds(), asked) == ([("A-17", 38.0)], [])
    assert run.report.answer == "It is settled."


def test_a_large_refund_waits_for_a_person(shop: Shop) -> None:
    """One is approved and booked; the other is rejected, and nothing is booked for it."""
    asked: list[PendingCall] = []
    calls = (
        *(use("order", number="B-02"), use("refund", number="B-02", euros=100)),
        *(use("order", number="C-30"), use("refund", number="C-30", euros=95)),
    )
    _serve(shop, *calls, asked=asked)

    assert [call.arguments["euros"] for call in asked] == [100, 95]
    assert shop.refunds() == [("B-02", 100.0)]


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param((use("refund", number="A-17", euros=38),), id="an order that was not looked up"),
        pytest.param((use("order", number="A-17"), use("refund", number="B-02", euros=20)), id="another order"),
        pytest.param((use("order", number="A-17"), use("refund", number="A-17", euros=39)), id="more than it cost"),
    ],
)
def test_what_the_rules_forbid_is_not_booked(shop: Shop, calls: tuple[Reply, ...]) -> None:
    """The clerk learns why, and the books are unchanged."""
    _serve(shop, *calls)

    assert shop.refunds() == []
