"""What an experiment came to, and how large it was meant to be."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scale = Literal["short", "full", "nightly"]


@dataclass(frozen=True)
class Demand:
    """What has to hold for an experiment to have shown anything at all."""

    faults: int
    """Faults that must at least have been injected."""
    successes: int
    """Sessions that must at least have ended in the same report as without faults."""


@dataclass
class Result:
    """One experiment: what was done, what became of the sessions, and what the provider charged for it."""

    name: str
    did: str
    """What was broken, for people."""
    sessions: int = 0
    lost: int = 0
    """Sessions that ended without the report they would have had, or that nobody knows any more."""
    stuck: int = 0
    """Sessions that still ran when the experiment's time was over."""
    different: int = 0
    """Reports that say something else than without faults."""
    faults: int = 0
    successes: int = 0
    in_flight: int = 0
    """Model calls under way at the moment of the faults, all together."""
    extra_calls: int = 0
    """Model calls that were charged although their step had been charged before."""
    books: tuple[str, ...] = ()
    """Where the sessions' books differ from the provider's; empty if they agree to the cent."""
    seconds: float = 0.0
    figures: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else was measured."""
    problems: list[str] = field(default_factory=list[str])
    """What should have held and did not."""
    skipped: str = ""
    """Why it could not run here."""

    def demand(self, demand: Demand) -> None:
        """Note what did not hold of what holds in every experiment."""
        if self.faults < demand.faults:
            self.problems.append(f"only {self.faults} of at least {demand.faults} faults were injected")
        if self.successes < demand.successes:
            self.problems.append(f"only {self.successes} of at least {demand.successes} sessions succeeded")
        for what in ("lost", "stuck", "different"):
            if count := getattr(self, what):
                self.problems.append(f"{count} sessions were {what}")
        self.problems += self.books

    def require(self, holds: object, otherwise: str) -> None:
        """Note what should have held."""
        if not holds:
            self.problems.append(otherwise)
