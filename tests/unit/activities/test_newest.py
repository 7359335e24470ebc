"""Mappings that would otherwise grow for as long as a worker runs."""

from activities.single_flight import Newest


def test_only_the_newest_entries_are_kept() -> None:
    """The oldest goes first; an entry that is replaced takes no further room."""
    kept = Newest[str, int](2)
    for key, value in [("a", 1), ("b", 2), ("b", 3), ("c", 4)]:
        kept[key] = value

    assert dict(kept) == {"b": 3, "c": 4}
