"""What the table of speed says of its figures."""

from benchmarks.speed import Asked


def test_a_figure_beyond_its_bound_is_missed() -> None:
    """A bound of nothing is a bound, too; a figure without one has no verdict."""
    cases: list[tuple[Asked, float, str | None]] = [
        (Asked("calls paid twice", at_most=0), 0, "pass"),
        (Asked("calls paid twice", at_most=0), 1, "MISS"),
        (Asked("wall/ideal", at_most=1.2), 1.3, "MISS"),
        (Asked("jobs/s", at_least=6), 6, "pass"),
        (Asked("jobs/s", at_least=6), 5, "MISS"),
        (Asked("events"), 5, None),
    ]
    for asked, value, verdict in cases:
        assert asked.verdict(value) == verdict
