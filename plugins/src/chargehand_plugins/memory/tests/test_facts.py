"""The store of facts: a fact stays with its tenant, is recorded once, and is gone once it is forgotten."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chargehand.contracts import Capability
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import SealBroken
from chargehand_plugins.memory import facts as store
from chargehand_plugins.memory.facts import FOLDER, Fact, Memory, MemoryRefusal, superseded
from chargehand_plugins.memory.tools import search
from chargehand_plugins.operations.clean import _clean  # pyright: ignore[reportPrivateUsage]  # without a server
from tests.s3_server import BUCKET, serve_s3

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEYS = Encryption({"k": bytes(range(32))}, "k")
UNTRUSTED: tuple[Capability, ...] = ("reads_untrusted",)


def fact(id_: str, text: str = "", *, reads: tuple[Capability, ...] = (), day: int = 0, supersedes: str = "") -> Fact:
    """Make a fact, whose text is a distinct sentence unless one is given."""
    text, at = text or f"The quay number {id_} is free.", NOW + timedelta(days=day)
    by: dict[str, Any] = {"source": "user", "session": "s", "agent": "clerk"}
    return Fact(id=id_, text=text, recorded_at=at, reads=reads, supersedes=supersedes, **by)


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (folder / FOLDER).rglob("*") if path.is_file())


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path)


def test_facts_belong_to_one_tenant(memory: Memory) -> None:
    """No other tenant sees, changes or forgets them."""
    kept = memory.record("acme", fact("a"))

    for change in (lambda: memory.confirm("other", "a", NOW), lambda: memory.forget("other", "a")):
        with pytest.raises(MemoryRefusal, match="'other' has no fact 'a'"):
            change()
    assert (memory.facts("acme"), memory.facts("other")) == ([kept], [])


def test_facts_are_encrypted_where_payloads_are(tmp_path: Path) -> None:
    """The store has none of their words; without the keys, or as another tenant's, a fact does not open."""
    memory = Memory(tmp_path, KEYS)
    memory.record("acme", fact("a", "The code is 4711."))
    memory.record("other", fact("b"))

    assert [each.text for each in memory.facts("acme")] == ["The code is 4711."]
    assert not any(word in stored(tmp_path) for word in (b"4711", b"acme", b"clerk"))
    with pytest.raises(SealBroken):
        Memory(tmp_path).facts("acme")
    [acme], [other] = ([*(tmp_path / FOLDER).glob(f"*/{id_}")] for id_ in ("a", "b"))
    shutil.copy(acme, other)
    with pytest.raises(SealBroken):
        memory.facts("other")


@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_concurrent_attempts_of_a_call_record_one_fact(tmp_path: Path, place: str) -> None:
    """All eight attempts return the same fact, although each would have written another."""
    attempts = [fact("a", day=number) for number in range(8)]
    with serve_s3() if place == "bucket" else nullcontext(), ThreadPoolExecutor(8) as pool:
        memory = Memory(f"s3://{BUCKET}/shared" if place == "bucket" else tmp_path)
        kept = [*pool.map(partial(memory.record, "acme"), attempts)]
        [only] = memory.facts("acme")
        edited = memory.confirm("acme", "a", NOW, "Berth 5 is free.")

        assert kept == [only] * 8
        assert memory.facts("acme") == [edited]


def test_a_known_fact_is_not_recorded_again(memory: Memory) -> None:
    """Another session gets the existing fact; a text that was superseded, or supersedes, counts as new."""
    first = memory.record("acme", fact("a", "Berth 4 is free."))
    again = memory.record("acme", fact("b", "berth 4 is FREE.", day=1))
    memory.record("acme", fact("c", "Berth 4 is taken.", day=2, supersedes="a"))
    back = memory.record("acme", fact("d", "Berth 4 is free.", day=3, supersedes="c"))
    memory.record("acme", fact("e", "Berth 4 is shut.", day=4))
    other = memory.record("acme", fact("f", "Berth 4 is free.", day=5, supersedes="e"))
    late = memory.record("acme", fact("g", "Berth 4 is free.", day=6, supersedes="e"))

    assert (again, back.id, other.id, late) == (first, "d", "f", back)
    assert superseded(memory.facts("acme")) == {"a": "c", "c": "d", "e": "f"}


def test_a_forgotten_fact_is_erased(memory: Memory, tmp_path: Path) -> None:
    """The store has no byte of it, and a late attempt of the call that recorded it does not restore it."""
    memory.record("acme", fact("a", "The code is 4711."))
    memory.forget("acme", "a")

    with pytest.raises(MemoryRefusal, match="forgotten"):
        memory.record("acme", fact("a", "The code is 4711."))
    assert (memory.facts("acme"), b"4711" in stored(tmp_path)) == ([], False)


def test_an_edited_fact_counts_as_confirmed_by_a_person(memory: Memory) -> None:
    """Its old text is gone; its provenance stays."""
    memory.record("acme", fact("a", "Berth 4 is free.", reads=UNTRUSTED))
    edited = memory.confirm("acme", "a", NOW, "Berth 5  is free.")

    assert [edited] == memory.facts("acme")
    assert (edited.text, edited.confirmed_at, edited.reads) == ("Berth 5 is free.", NOW, UNTRUSTED)
    with pytest.raises(MemoryRefusal, match="1 to 1,000 characters"):
        memory.confirm("acme", "a", NOW, "x" * 1_001)


@pytest.mark.parametrize(("limit", "most"), [("MOST_FACTS", 2), ("MOST_BYTES", 400)])
def test_a_tenants_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int) -> None:
    """The agent is told that memory is full until a person forgets a fact; other tenants are unaffected."""
    monkeypatch.setattr(store, limit, most)
    memory = Memory(tmp_path)
    memory.record("acme", fact("a"))
    memory.record("acme", fact("b"))

    with pytest.raises(MemoryRefusal, match="memory is full"):
        memory.record("acme", fact("c"))
    assert memory.record("other", fact("c")).id == "c"
    memory.forget("acme", "a")
    assert memory.record("acme", fact("d")).id == "d"


@pytest.mark.parametrize(
    ("older", "is_confirmed", "newer", "is_superseded"),
    [
        pytest.param((), False, (), True, id="equals"),
        pytest.param(UNTRUSTED, False, UNTRUSTED, True, id="untrusted equals"),
        pytest.param((), False, UNTRUSTED, False, id="untrusted text against an agent that read none"),
        pytest.param(UNTRUSTED, True, UNTRUSTED, False, id="an agent against a person"),
    ],
)
def test_a_less_trusted_fact_does_not_supersede_a_more_trusted_one(
    tmp_path: Path,
    older: tuple[Capability, ...],
    newer: tuple[Capability, ...],
    *,
    is_confirmed: bool,
    is_superseded: bool,
) -> None:
    """Text by a stranger cannot make an agent replace what the user or a person has said."""
    memory = Memory(tmp_path)
    memory.record("acme", fact("a", reads=older))
    if is_confirmed:
        memory.confirm("acme", "a", NOW)
    memory.record("acme", fact("b", reads=newer, day=1, supersedes="a"))

    assert superseded(memory.facts("acme")) == ({"a": "b"} if is_superseded else {})


def test_only_an_existing_fact_can_be_superseded(memory: Memory) -> None:
    """The agent is told that the ref is unknown, and nothing is recorded."""
    with pytest.raises(MemoryRefusal, match="no fact of that ref"):
        memory.record("acme", fact("a", supersedes="p3"))
    assert memory.facts("acme") == []


def test_cleanup_keeps_facts(memory: Memory, tmp_path: Path) -> None:
    """Only people delete facts, even if no session needs them."""
    memory.record("acme", fact("a"))

    done = _clean([tmp_path], NOW + timedelta(days=36_500), delete=True)

    assert (done.files, [each.id for each in memory.facts("acme")]) == (0, ["a"])


@pytest.mark.parametrize(
    ("query", "found"),
    [("", "cba"), ("free berths", "ca"), ("ferry Monday", "b"), ("berth Monday", "cba"), ("weather", "")],
)
def test_facts_are_found_by_their_words(memory: Memory, query: str, found: str) -> None:
    """Search returns facts with all words, or else with any of them, newest first."""
    for day, (id_, text) in enumerate(
        {"a": "Berth 4 is free.", "b": "The ferry stops on Mondays.", "c": "Berth 5 is free."}.items()
    ):
        memory.record("acme", fact(id_, text, day=day))

    assert "".join(each.id for each in search(memory.facts("acme"), query)) == found
