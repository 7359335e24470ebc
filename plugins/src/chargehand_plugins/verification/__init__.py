"""Verification of a finished session's report against its documents."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.workflow(f"{__name__}.workflow:VerificationWorkflow")
    registry.parts(f"{__name__}.activity:add_parts")
