"""The result of an experiment, and its minimum size."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scale = Literal["short", "full", "nightly"]


@dataclass(frozen=True)
class Demand:
    """What an experiment must contain to prove anything."""

    faults: int
    """Minimum number of injected faults."""
    successes: int
    """Minimum number of sessions that ended in the same report as without faults."""


@dataclass
class Result:
    """One experiment: what was done, what happened to the sessions, and what the provider charged for it."""

    name: str
    did: str
    """What was broken, in words for people."""
    sessions: int = 0
    lost: int = 0
    """Sessions that ended without the report they should have had, or that can no longer be found."""
    stuck: int = 0
    """Sessions still running when the experiment's time was over."""
    different: int = 0
    """Reports that differ from those without faults."""
    faults: int = 0
    successes: int = 0
    in_flight: int = 0
    """Total number of model calls in progress at the moments of the faults."""
    extra_calls: int = 0
    """Model calls that were charged although their step had already been charged."""
    books: tuple[str, ...] = ()
    """Differences between the sessions' accounts and the provider's; empty if they agree to the cent."""
    seconds: float = 0.0
    figures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other measurements."""
    problems: list[str] = field(default_factory=list[str])
    """Expectations that were not met."""
    skipped: str = ""
    """Why it could not run here."""

    def demand(self, demand: Demand) -> None:
        """Record which of the expectations that are common to every experiment were not met."""
        if self.faults < demand.faults:
            self.problems.append(f"only {self.faults} of at least {demand.faults} faults were injected")
        if self.successes < demand.successes:
            self.problems.append(f"only {self.successes} of at least {demand.successes} sessions succeeded")
        for what in ("lost", "stuck", "different"):
            if count := getattr(self, what):
                self.problems.append(f"{count} sessions were {what}")
        self.problems += self.books

    def require(self, holds: object, otherwise: str) -> None:
        """Record a problem unless an expectation is met."""
        if not holds:
            self.problems.append(otherwise)
