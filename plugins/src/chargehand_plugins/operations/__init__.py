"""Commands for operators and crew authors: `doctor`, `init` and others."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the verbs, and their options of the worker program."""
    registry.verbs("Operate", f"{__name__}.verbs:app")
    registry.verbs("Build", f"{__name__}.crew:app")
    registry.examinations(f"{__name__}.doctor_trials:examine", at_start=True)
    registry.worker_verb("--explain", f"{__name__}.self_checks:explain")
    registry.worker_verb("--crews", f"{__name__}.self_checks:list_crews")
    registry.worker_verb("--replay", f"{__name__}.replayer:print_replayed")
