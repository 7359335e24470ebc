"""Fuzzing: bytes changed at random, from a corpus that every run replays; `make nightly` tries far more.

An input that breaks its target is written to `corpus/TARGET/found`, minimised. Fix the target, give the file a name
that says what it is, and commit it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

_CORPUS: Final = Path(__file__).parent / "corpus"
_TOKENS: Final = (
    b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u0000", b"\\ud800", b":", b",", b"null", b"NaN", b"1e999", b"-1", b"\n",
    b"\r", b"\n\n", b"\x0b", b"\x0c", b"\x85", b"\xe2\x80\xa8", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf",
    b"\xff\xfe", b"data: ", b"data: [DONE]\n\n", b"event: ", b": keep-alive\n", b"<", b">", b"</", b"<!--", b"<![",
    b"<!DOCTYPE", b"<table>", b"<pre>", b"&#x0;", b"```", b"#", b"|", b"- ", b"===", b"> ", b"%2e", b"xn--", b"@",
    b"0" * 400, b"[" * 300, b'{"a":' * 200, b"a" * 2_000,
)  # fmt: skip
_MOST: Final = 3_000
_AT_NIGHT: Final = 2_000


def _seeds(target: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((_CORPUS / target).iterdir())]


@st.composite
def _changed(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """Take an input of the corpus and cut, repeat, insert and splice."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from((0, 1, 2, 5, 40, 1_000))))
        kept = data[start:end]
        piece = draw(
            st.one_of(
                st.sampled_from(_TOKENS),
                st.just(kept * draw(st.sampled_from((0, 2, 3, 50)))),
                st.binary(max_size=4),
                st.sampled_from(seeds),
            )
        )
        data = (data[:start] + piece + data[end:])[:_MOST]
    return data


def _settings() -> settings:
    at_night = settings.get_current_profile_name() == "nightly"
    return settings(
        max_examples=_AT_NIGHT if at_night else 4,
        derandomize=not at_night,
        deadline=None,
        database=settings().database if at_night else None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.mark.parametrize("target", TARGETS)
def test_corpus_inputs_are_parsed_or_refused(target: str, record_property: Callable[[str, object], None]) -> None:
    seeds = _seeds(target)
    for seed in seeds:
        TARGETS[target](seed)
    record_property("cases", len(seeds))

    assert seeds


@pytest.mark.parametrize("target", TARGETS)
def test_mutated_inputs_are_parsed_or_refused(target: str, record_property: Callable[[str, object], None]) -> None:
    found = _CORPUS / target / "found"
    tried = 0

    @_settings()
    @given(_changed(_seeds(target)))
    def read(data: bytes) -> None:
        nonlocal tried
        tried += 1
        try:
            TARGETS[target](data)
        except Exception:
            found.write_bytes(data)
            raise

    read()
    record_property("cases", tried)
