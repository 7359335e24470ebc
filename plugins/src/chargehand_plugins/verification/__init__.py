"""The verification of a finished session's report, by the documents that the session could read."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.workflow(f"{__name__}.workflow:VerificationWorkflow")
    registry.parts(f"{__name__}.activity:add_parts")
