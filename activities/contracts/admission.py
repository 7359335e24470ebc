"""Where a session waits to be admitted, and the names of what admits it: of the session and of plug-ins."""

from typing import Final

from chargehand.contracts import Contract

LEDGER_PREFIX: Final = "chargehand-tenant/"
"""The workflow ids of ledgers begin so, those of sessions must not."""


class AdmissionTerms(Contract):
    """Where a session waits to be admitted."""

    ledger: str
    """Workflow id of its tenant's ledger."""
    key: str
    """The run that opened the session, by which the ledger knows it, in later runs too."""
