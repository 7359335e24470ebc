"""The loop guard: what is the same piece of work, and what is not."""

import re

from hypothesis import given
from hypothesis import strategies as st

from workflows.rules.deduplication import child_workflow_id, fingerprint, normalise


def test_the_way_of_saying_it_does_not_matter() -> None:
    """Case, white space, punctuation, typographic forms and trivial words make no other piece of work."""
    cases = [
        "LIST THE COSTS OF THE FERRY HARALD IN 2025",
        "  list the\n\tcosts of the   ferry Harald in 2025 ",
        "List the costs of the ferry “Harald” in 2025!",
        "Please list costs of your ferry Harald for 2025.",
        "List costs, ferry Harald, 2025",
        "**List** the `costs` of the ferry Harald (in 2025)",
        "Ｌｉｓｔ the costs of the ferry Harald in ２０２５",
    ]
    for said_otherwise in cases:
        same = fingerprint("analyst", "List the costs of the ferry Harald in 2025")
        assert fingerprint("analyst", said_otherwise) == same


def test_what_changes_the_meaning_matters() -> None:
    """The order of words, numbers, accents, vowel signs and symbols make another piece of work."""
    cases = [
        ("Compare Harald with Ida", "Compare Ida with Harald"),
        ("to be", "to do"),
        ("flights from Oslo to Rome", "flights to Oslo from Rome"),
        ("trains from A to B", "trains to A from B"),
        ("trains from Oslo to Rome", "trains from Rome to Oslo"),
        ("从奥斯陆到罗马的航班", "从罗马到奥斯陆的航班"),
        ("オスロからローマへの便", "ローマからオスロへの便"),
        ("오슬로에서 로마로 가는 편", "로마에서 오슬로로 가는 편"),
        ("sum up annex A", "sum up annex"),
        ("describe the market in the US", "describe the market in IT"),
        ("ferries with a bar or a shop", "ferries with a bar, a shop"),
        ("books by Ida about Harald", "books about Ida by Harald"),
        ("costs in 2024", "costs in 2025"),
        ("costs above 5 €", "costs above 5 $"),
        ("delays > 10 minutes", "delays < 10 minutes"),
        ("jobs for C++", "jobs for C#"),
        ("find कि", "find की"),
        ("find fee", "find fée"),
    ]
    for one, other in cases:
        assert fingerprint("reader", one) != fingerprint("reader", other)


@given(text=st.text())
def test_normalising_twice_is_normalising_once(text: str) -> None:
    """What is normalised is normalised: a fingerprint does not depend on how often a text was handed on."""
    assert normalise(normalise(text)) == normalise(text)


@given(text=st.text(max_size=50))
def test_agents_do_not_share_fingerprints(text: str) -> None:
    """The same words for another agent are another piece of work."""
    assert fingerprint("reader", text) != fingerprint("writer", text)


@given(instruction=st.text(max_size=200))
def test_a_child_id_says_who_but_not_what(instruction: str) -> None:
    """An id is `<session>/<run>/<agent>/<16 hex digits>`: nothing of the user's words gets into logs and lists."""
    workflow_id = child_workflow_id("session-1", "5f0c", "reader", instruction)

    assert re.fullmatch(r"session-1/5f0c/reader/[0-9a-f]{16}", workflow_id)


def test_a_fingerprint_stays_what_it_is() -> None:
    """SHA-256 of agent, line feed and normalised words, first 16 digits: ids of running sessions must not move."""
    # printf 'reader\nlist costs ferry' | sha256sum
    assert fingerprint("reader", "List the costs of the ferry") == "5cb1b572e7e97cfa"
