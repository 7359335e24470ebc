"""How requests name this program to other sites."""

from functools import cache
from importlib.metadata import version


@cache
def user_agent() -> str:
    return f"Chargehand/{version('chargehand')}"
