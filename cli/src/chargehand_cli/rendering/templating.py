"""Environments of templates: every value is escaped, and made visible where it could mislead."""

from collections.abc import Callable, Mapping

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chargehand_cli.rendering.escaping import safe_text


def templates(package: str, filters: Mapping[str, Callable[..., object]]) -> Environment:
    """Open the templates of a package."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment


def _visible(value: object) -> object:
    return safe_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
