"""A model without a language model: rules that plan, ask tools, quote passages and compute figures."""

from activities.models.extractive.model import MODEL_NAME, ExtractiveModel

__all__ = ["MODEL_NAME", "ExtractiveModel"]
