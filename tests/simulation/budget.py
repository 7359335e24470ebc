"""How many examples are tried: enough for every merge, and seventy times as many at night."""

from typing import Final

from hypothesis import HealthCheck, settings

_STEPS: Final = 12
_AT_NIGHT: Final = 70


def settings_for(examples: int) -> settings:
    """Return how a property of sessions is tried: the same examples each time, or new ones at night.

    150 examples over all tests of the decision core become 10,500 at night.
    """
    at_night = settings.get_current_profile_name() == "nightly"
    return settings(
        max_examples=examples * _AT_NIGHT if at_night else examples,
        stateful_step_count=_STEPS,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
