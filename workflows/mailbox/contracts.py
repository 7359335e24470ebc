"""What one workflow may tell another: an envelope, and the kinds of what is in it. Anyone with access can send one."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from chargehand.contracts import Contract, Dollars, Message, left_out

Turns = Annotated[int, Field(ge=0, le=1_000)]
Token = Annotated[str, Field(max_length=40)]


class GrantRequest(Contract):
    """A child asks its parent for a larger grant."""

    kind: Literal["grant_request"] = "grant_request"
    turns: Turns
    usd: Dollars


class Grant(Contract):
    """The reply: by how much the grant grows, at least what was asked for or nothing."""

    kind: Literal["grant"] = "grant"
    turns: Turns
    usd: Dollars


Body = GrantRequest | Grant
Reply = Grant
"""What settles the request whose number and token its envelope repeats."""


class Envelope(Message):
    """A request, a reply or a notice from one workflow to another."""

    sender: Annotated[str, Field(max_length=1_000)]
    """Workflow id of the sender, to which a reply goes."""
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    """Counts what the sender has written; a reply repeats that of its request."""
    token: Token
    """Drawn at random; a reply repeats that of its request."""
    body: Annotated[Body, Field(discriminator="kind")]

    @property
    def is_reply(self) -> bool:
        """Whether it settles a request."""
        return isinstance(self.body, Reply)


class MailboxState(Contract):
    """The mailbox of a workflow that continues as new; no request is open then."""

    written: int = left_out(0)
    received: tuple[Token, ...] = left_out(())
    waited: timedelta = left_out(timedelta(0))
