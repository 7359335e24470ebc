"""How the plug-in joins workers: its workflow with and without Worker Versioning, and its file at the start."""

from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.common import VersioningBehavior

from chargehand.wire import WorkflowType
from worker.program import main
from workflows.registry import added_workflows


@pytest.mark.parametrize(
    ("with_versioning", "behavior"),
    [(False, VersioningBehavior.UNSPECIFIED), (True, VersioningBehavior.AUTO_UPGRADE)],
)
def test_ledgers_change_their_build_where_there_are_builds(
    *, with_versioning: bool, behavior: VersioningBehavior
) -> None:
    """A ledger outlives the builds of sessions; a worker without Worker Versioning must not say so."""
    definitions = [
        workflow._Definition.must_from_class(each) for each in added_workflows(with_versioning=with_versioning)
    ]

    behaviors = {each.name: each.versioning_behavior for each in definitions}

    assert behaviors[WorkflowType.TENANT] is behavior


def test_a_missing_file_is_refused_when_settings_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message names the setting and the file."""
    monkeypatch.setenv("CHARGEHAND_TENANTS", str(tmp_path / "none.toml"))

    code = main(["--check-settings"])

    assert code == 2
    assert f"CHARGEHAND_TENANTS: {tmp_path / 'none.toml'} cannot be read" in capsys.readouterr().err
