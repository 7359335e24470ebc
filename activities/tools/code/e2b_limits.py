"""The limits of code in an E2B sandbox."""

from datetime import timedelta

from chargehand.contracts import Contract


class E2BLimits(Contract):
    """How much time and output one piece of code may use."""

    execution: timedelta = timedelta(seconds=60)
    request: timedelta = timedelta(seconds=15)
    """Time for one request to the service, such as creating a sandbox."""
    output_characters: int = 64 * 1024

    @property
    def life(self) -> timedelta:
        """The service ends the sandbox after this time, in case the worker is lost."""
        return self.execution + 4 * self.request
