"""Every bomb under every suffix is read or refused in words, by a small child; the next document is read."""

import json
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest
from bombs import BOMBS, SAMPLE
from hypothesis import settings
from made_documents import HANDBOOK, library
from memory_watch import MOST_CHILD_KB, MOST_GROWTH_KB, children_seconds, watched

from tests.parameters import first_fast

_AT_NIGHT = 60
_MEAN_SECONDS = 3


_CHOSEN = BOMBS if settings.get_current_profile_name() == "nightly" else SAMPLE


@pytest.mark.parametrize("suffix", first_fast(dict.fromkeys(suffix for _, suffix, _ in _CHOSEN), 3))
async def test_no_bomb_harms(tmp_path: Path, suffix: str, record_property: Callable[[str, object], None]) -> None:
    """Whatever its suffix: no file is lost without a word, none outlives its limits, none writes outside."""
    chosen = [bomb for bomb in _CHOSEN if bomb[1] == suffix]
    for number, group in groupby(enumerate(chosen), lambda pair: pair[0] // _AT_NIGHT):
        place = tmp_path / f"docs{number}"
        place.mkdir()
        names = {f"{at:03}{suffix}": (bomb, make) for at, (bomb, _, make) in group}
        for name, (_, make) in names.items():
            (place / name).write_bytes(make())
        (place / "z.md").write_text(HANDBOOK)
        before = children_seconds()

        with watched() as watch:
            opened = await library(tmp_path, tmp_path).open((f"file:{place}/",))

        # By the processor's clock: others may be at work on this machine.
        assert children_seconds() - before < 10 + _MEAN_SECONDS * len(names)
        assert watch.child_kb <= MOST_CHILD_KB
        assert watch.growth_kb <= MOST_GROWTH_KB
        told = {entry.name: entry.units or entry.problem or entry.headings for entry in opened.catalog.documents}
        silent = [bomb for name, (bomb, _) in names.items() if name in told and not told[name]]
        lost = [bomb for name, (bomb, _) in names.items() if name not in json.dumps(opened.catalog.model_dump())]
        assert (silent, lost) == ([], [])
        assert (await opened.search("hotels")).passages[0].ref == "z.md#L12"
        assert not (tmp_path / "out").exists()
    record_property("cases", len(chosen))
