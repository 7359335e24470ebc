"""Where a command works: which server, which worker, which directories."""

from pathlib import Path

import pytest

from chargehand.errors import NotReachable
from chargehand_cli.location import NothingToRunOn, Wishes, decide_place


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout, in an environment with a `temporal` program."""
    folder = tmp_path / "checkout"
    (folder / "workflows").mkdir(parents=True)
    (folder / "worker_main.py").touch()
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "temporal"):
        (programs / name).touch(mode=0o755)
    return folder


def test_a_checkout_runs_an_embedded_server(checkout: Path, tmp_path: Path) -> None:
    """Within a checkout its own Python runs its worker, on a state directory beside it."""
    place = decide_place(Wishes(), {}, checkout / "workflows", tmp_path)

    assert place.is_embedded
    assert (place.application, place.state) == (checkout, checkout / ".chargehand")
    assert (place.artifacts, place.task_queue) == (checkout / ".chargehand" / "artifacts", "chargehand")
    assert place.temporal == checkout / ".venv/bin/temporal"
    assert place.worker
    assert place.worker.command == (str(checkout / ".venv/bin/python"), "worker_main.py")
    assert place.worker.directory == checkout
    assert place.worker.environment == {
        "CHARGEHAND_STATE_DIR": str(checkout / ".chargehand"),
        "CHARGEHAND_ARTIFACTS": str(checkout / ".chargehand" / "artifacts"),
        "CHARGEHAND_TASK_QUEUE": "chargehand",
        "CHARGEHAND_STORAGE": str(checkout / ".chargehand" / "payloads"),
    }


def test_options_come_before_the_environment(checkout: Path, tmp_path: Path) -> None:
    """What is typed wins over what is set, which wins over what is found."""
    environment = {
        "CHARGEHAND_APPLICATION": str(checkout),
        "CHARGEHAND_STATE_DIR": "/set/state",
        "CHARGEHAND_ARTIFACTS": "/set/artifacts",
        "CHARGEHAND_TASK_QUEUE": "set",
    }

    found = decide_place(Wishes(), environment, tmp_path, tmp_path)
    typed = decide_place(
        Wishes(state=Path("/typed/state"), artifacts=Path("/typed/artifacts"), task_queue="typed"),
        environment,
        tmp_path,
        tmp_path,
    )

    assert (found.application, found.state, found.artifacts, found.task_queue) == (
        checkout, Path("/set/state"), Path("/set/artifacts"), "set"
    )  # fmt: skip
    assert (typed.state, typed.artifacts, typed.task_queue) == (Path("/typed/state"), Path("/typed/artifacts"), "typed")


@pytest.mark.parametrize(
    ("wishes", "environment", "named_by"),
    [
        (Wishes(address="t:7233"), {}, "--address"),
        (Wishes(), {"TEMPORAL_ADDRESS": "t:7233"}, "TEMPORAL_ADDRESS"),
        (Wishes(), {"TEMPORAL_PROFILE": "cloud"}, "TEMPORAL_PROFILE"),
        (Wishes(), {"TEMPORAL_CONFIG_FILE": "/t.toml"}, "TEMPORAL_CONFIG_FILE"),
    ],
)
def test_a_named_server_is_used(
    checkout: Path, tmp_path: Path, wishes: Wishes, environment: dict[str, str], named_by: str
) -> None:
    """A server that is named in any way is used even in a checkout, and nothing is known of its workers' disk."""
    place = decide_place(wishes, environment, checkout, tmp_path)

    assert (place.is_embedded, place.configured_by) == (False, named_by)
    assert (place.worker, place.artifacts) == (None, None)


def test_temporals_own_default_profile_names_a_server(checkout: Path, tmp_path: Path) -> None:
    """The settings file that Temporal's CLI writes counts, if its default profile has an address."""
    file = tmp_path / "config" / "temporalio" / "temporal.toml"
    file.parent.mkdir(parents=True)
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    file.write_text('[profile.other]\naddress = "t:7233"\n')
    without = decide_place(Wishes(), environment, checkout, tmp_path)
    file.write_text('[profile.default]\naddress = "t:7233"\n')
    given = decide_place(Wishes(), environment, checkout, tmp_path)
    file.write_text("not toml at all")
    broken = decide_place(Wishes(), environment, checkout, tmp_path)

    assert (without.is_embedded, given.is_embedded, broken.is_embedded) == (True, False, True)
    assert given.configured_by == str(file)


def test_without_a_checkout_the_state_is_where_the_user_keeps_state(tmp_path: Path) -> None:
    """A client that is installed on its own keeps reports in the user's state directory."""
    place = decide_place(
        Wishes(address="t:7233"), {"XDG_STATE_HOME": "/home/u/state"}, tmp_path, tmp_path, installed_in=tmp_path
    )

    assert place.state == Path("/home/u/state/chargehand")


def test_nothing_to_run_on_says_what_to_do(tmp_path: Path) -> None:
    """Neither a server nor a checkout: the message names both ways out."""
    with pytest.raises(NothingToRunOn, match=r"--address HOST:PORT.*--application DIR"):
        decide_place(Wishes(), {}, tmp_path, tmp_path, installed_in=tmp_path)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    """A folder that was named is never replaced by another one in silence."""
    with pytest.raises(NotReachable, match=r"is not a checkout of Chargehand: it holds no worker_main\.py"):
        decide_place(Wishes(application=tmp_path), {}, tmp_path, tmp_path)
