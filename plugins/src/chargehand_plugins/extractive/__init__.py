"""The offline model: rules that plan, quote and compute where no language model is set."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add the provider, which is used if no other is set."""
    registry.model_provider("extractive", f"{__name__}.model:open_model")
