"""The operator's file of tenants and their limits."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationError

from activities.backends import SettingsError
from chargehand.contracts import TypedByPeople
from chargehand.contracts.base import Name
from chargehand.contracts.problems import describe_problems, join_problems
from chargehand.toml_file import UnusableToml, read_toml
from chargehand_plugins.tenants.limits import TenantLimits

_LARGEST_FILE_BYTES: Final = 1_000_000


class Tenants(TypedByPeople):
    """The file of tenants, written by the operator."""

    refuse_unknown: bool = False
    """Whether sessions of tenants without their own table are refused."""
    default: TenantLimits = TenantLimits()
    """Default limits of tenants, overridden by their tables."""
    tenants: Annotated[dict[Name, TenantLimits], Field(max_length=10_000)] = {}
    """Limits by tenant."""

    def limits_of(self, tenant: str) -> TenantLimits:
        own = self.tenants.get(tenant, TenantLimits())
        limits = {name: getattr(own, name) for name in own.model_fields_set}
        return self.default.model_copy(update=limits)

    def problems(self, tenant: str) -> list[str]:
        """Explain why no session of this tenant may run, if so."""
        if not self.refuse_unknown or tenant in self.tenants:
            return []
        return [f"tenant: '{tenant}' is unknown here; the operator names tenants in the file of CHARGEHAND_TENANTS"]


def load_tenants(file: Path | None) -> Tenants:
    """Read the file of tenants; without one, there are no limits. Raises `SettingsError` if missing or invalid."""
    if file is None:
        return Tenants()
    try:
        return Tenants.model_validate(read_toml(file, _LARGEST_FILE_BYTES))
    except UnusableToml as error:
        raise SettingsError(f"CHARGEHAND_TENANTS: {file} {error}") from error
    except ValidationError as error:
        problems = join_problems(describe_problems(error, Tenants))
        raise SettingsError(f"CHARGEHAND_TENANTS: {file}: {problems}") from error
