"""All models supported by Pydantic AI, such as those of Groq, Mistral, Cohere and xAI."""

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    registry.model_provider("pydantic_ai", f"{__name__}.models:open_pydantic_ai")
