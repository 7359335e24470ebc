"""Objections to the claims of reports, and differences between subtasks: figures, dates, names and opposite words."""

from chargehand.plugins import Hook, Registry


def register(registry: Registry) -> None:
    registry.hook(Hook.CLAIM_OBJECTIONS, f"{__name__}.objections:objections_of")
    registry.hook(Hook.UNKNOWN_FIGURES, f"{__name__}.objections:unknown_figures")
    registry.hook(Hook.DISAGREEMENTS, f"{__name__}.disagreements:disagreements")
