"""The operator's file of tenants, and how the plug-in joins workers with it."""

from decimal import Decimal
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.common import VersioningBehavior

from activities.backends import SettingsError
from chargehand.wire import WorkflowType
from chargehand_plugins.tenants.file import load_tenants
from chargehand_plugins.tenants.limits import TenantLimits
from workflows.registry import added_workflows


def _written(folder: Path, text: str) -> Path:
    file = folder / "tenants.toml"
    file.write_text(text)
    return file


def test_a_tenant_has_the_default_limits_unless_its_table_says_otherwise(tmp_path: Path) -> None:
    """What a tenant's table leaves out is the default, and a tenant without a table has all defaults."""
    file = _written(tmp_path, "[default]\nsessions = 2\nusd_per_day = 5\n[tenants.acme]\nusd_per_day = 50.5\n")

    tenants = load_tenants(file)

    assert tenants.limits_of("acme") == TenantLimits(sessions=2, usd_per_day=Decimal("50.5"))
    assert tenants.limits_of("stranger") == TenantLimits(sessions=2, usd_per_day=Decimal(5))
    assert tenants.problems("stranger") == []


def test_unknown_tenants_can_be_refused(tmp_path: Path) -> None:
    """With `refuse_unknown`, only named tenants may run sessions."""
    tenants = load_tenants(_written(tmp_path, "refuse_unknown = true\n[tenants.acme]\n"))

    assert tenants.problems("acme") == []
    assert "'stranger' is unknown" in tenants.problems("stranger")[0]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[default]\nsession = 2", "session"),
        ("[default]\nsessions = 0", "default.sessions"),
        ("[tenants.acme]\nusd_per_day = -1", "usd_per_day"),
        ("[tenants.acme]\nweight = nan", "weight"),
        ("[tenants.ACME]\n", "ACME"),
        ("[tenants", "not TOML"),
        ("weight = " + "9" * 5_000, "too many digits"),
        ("weight = " + "[" * 50_000, "nested too deeply"),
        ("a." * 100_000 + "a = 1", "more than 20 parts"),
    ],
)
def test_an_invalid_tenants_file_error_names_the_field(tmp_path: Path, text: str, named: str) -> None:
    """A worker does not start with a file that it would not follow."""
    with pytest.raises(SettingsError, match="CHARGEHAND_TENANTS") as refused:
        load_tenants(_written(tmp_path, text))

    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("with_versioning", "behavior"), [(False, VersioningBehavior.UNSPECIFIED), (True, VersioningBehavior.AUTO_UPGRADE)]
)
def test_ledgers_auto_upgrade_if_worker_versioning_is_used(
    *, with_versioning: bool, behavior: VersioningBehavior
) -> None:
    """A ledger outlives the builds of sessions; without Worker Versioning its behavior is unspecified."""
    definitions = [
        workflow._Definition.must_from_class(each) for each in added_workflows(with_versioning=with_versioning)
    ]

    behaviors = {each.name: each.versioning_behavior for each in definitions}

    assert behaviors[WorkflowType.TENANT] is behavior
