"""Models hosted by clouds: Claude on Amazon Bedrock and Google Vertex AI, OpenAI's on Azure."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    for name in ("bedrock", "vertex", "azure"):
        registry.model_provider(name, f"{__name__}.models:open_{name}")
