"""The quotations and claims of a report, looked up in the session's documents once more."""

from typing import Annotated

from pydantic import StringConstraints

from chargehand.contracts.base import Contract, TypedByPeople
from chargehand.contracts.outcome import Verification

__all__ = ["ClaimCheck", "QuoteCheck", "VerificationReport", "VerificationRequest"]


class VerificationRequest(TypedByPeople):
    """Which report to verify: that of a finished session, by the documents that the session could read."""

    session: Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
    """Id of the session."""


class QuoteCheck(Contract):
    """Whether one quotation is correct."""

    ref: str
    """Where it is said to stand, such as `handbook.md#L10-L14`."""
    stands: bool
    """Whether the words stand there."""
    problem: str = ""
    """Why not, for the user; empty if it is correct."""


class ClaimCheck(Contract):
    """What one claim of a report rests on, now that the documents were read again."""

    claim: str
    """The claim."""
    verification: Verification
    """As in the report; `unsupported` if its words were not found again."""
    was_found: bool = False
    """Whether its words were found again; false as well if it quotes none, or only such as a web page's."""
    stands: bool = True
    """Whether it rests on what it says."""
    problem: str = ""
    """Why the claim does not rest on its quotation, for the user."""


class VerificationReport(Contract):
    """What became of each quotation and claim."""

    session: str
    """Id of the session."""
    quotations: tuple[QuoteCheck, ...] = ()
    """Of documents, in the order of the report's sources; web pages, queries and computations are left out."""
    claims: tuple[ClaimCheck, ...] = ()
    """In the order of the report."""

    @property
    def stands(self) -> bool:
        """Whether every quotation and every claim stands."""
        return all(each.stands for each in (*self.quotations, *self.claims))
