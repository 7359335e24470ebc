"""Chargehand's only extension mechanism: registrations of plug-ins are found, and faults are reported."""

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from pydantic_settings import BaseSettings

from chargehand.bucket import BucketLocation, Directory
from chargehand.environment import describe_unknown
from chargehand.errors import BucketError
from chargehand.plugins import Extension, PluginError, Registry, add_modules, installed, require_usable
from chargehand.record import Call, CallBegun, Record
from chargehand_cli.main import VerbGroups
from worker.program import main
from worker.settings import Settings, settings_of, settings_type

app = typer.Typer()
_Install = Callable[..., None]
Case = tuple[str, str, str]
REGISTER = "def register(registry):\n    "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_plugin", raising=False)
    return tmp_path


class TideSettings(BaseSettings):
    tide_station: str = "Dover"


def register(registry: Registry) -> None:
    registry.tools("tide_tools")
    registry.verbs("Operate", f"{__name__}:app")
    registry.settings(f"{__name__}:TideSettings", "CHARGEHAND_TIDE_STATION")


def test_packages_and_modules_register_plugins_alike(
    install: _Install, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package uses its entry point, a local module the setting; nothing is imported before it is used."""
    (folder / "own_plugin.py").write_text("def register(registry):\n    registry.tools('no_such_module')\n")
    monkeypatch.setenv("CHARGEHAND_PLUGINS", " own_plugin,")
    install(tides=f"{__name__}:register")
    plugins = installed()

    assert plugins.tools == [Extension("tides", "tide_tools"), Extension("own_plugin", "no_such_module")]
    assert [verbs.load(typer.Typer) for verbs in plugins.verbs] == [app]
    assert plugins.problems == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import missing_package", "ModuleNotFoundError: No module named 'missing_package'; install it, or take 'own"),
        ("", "has no attribute 'register'; it needs a function `register"),
        (f"{REGISTER}registry.tides()", "no attribute 'tides'; it needs"),
        ("1 / 0", "ZeroDivisionError: division by zero; mend it, or take 'own_plugin' out of CHARGEHAND_PLUGINS"),
        ("raise SystemExit(7)", "SystemExit: 7; mend it"),
        (f"{REGISTER}raise SystemExit('bye')", "SystemExit: bye; mend it"),
        ("async def register(registry):\n    pass", "TypeError: `register` must be a plain function; mend it"),
        (f"{REGISTER}registry.hook('rout', 'a:b')", "ValueError: 'rout' is not a valid Hook; mend it"),
        (f"{REGISTER}registry.tools(123)", "TypeError: expected string"),
        (f"{REGISTER}registry.parts('a:b()')", "ValueError: 'a:b()' is not `module:attribute`; mend it"),
        ("raise ValueError('a\\x1b[31m\\n' + 'x' * 10_000)", f"ValueError: a\ufffd[31m\ufffd{'x' * 480}…; mend it"),
    ],
)
def test_a_plugin_that_fails_to_register_is_named_with_the_remedy(
    install: _Install, folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    """A worker refuses it; commands can still use what other plug-ins add."""
    (folder / "own_plugin.py").write_text(text)
    monkeypatch.setenv("CHARGEHAND_PLUGINS", "own_plugin")
    install(tides=f"{__name__}:register")

    with pytest.raises(PluginError) as refused:
        require_usable(installed())

    assert str(refused.value).startswith("The plug-in 'own_plugin': it cannot be registered: ")
    assert problem in str(refused.value)
    assert installed().tools == [Extension("tides", "tide_tools")]


class OwnStore(Directory):
    """Stands for a store of another kind, such as a database."""

    def __init__(self, location: BucketLocation) -> None:
        super().__init__(Path(location.bucket) / location.prefix)


def register_store(registry: Registry) -> None:
    registry.bucket("sql", f"{__name__}:OwnStore")


@pytest.mark.usefixtures("folder")
def test_a_plugin_can_store_the_record(install: _Install) -> None:
    """An address with the plug-in's scheme selects it; another scheme is refused."""
    install(own=f"{__name__}:register_store")
    begun = CallBegun(session="s", agent="clerk", tool="pay", arguments={}, key="k", attempt="a", at=datetime.now(UTC))
    record = Record("sql://effects/own")

    assert [record.begin_call(begun), record.begin_call(begun)] == [True, False]
    assert record.calls("s") == [Call(begun, None)]
    with pytest.raises(BucketError, match="ftp://effects/own is not a directory"):
        Record("ftp://effects/own")


def test_a_plugin_registers_everything_or_nothing(install: _Install, folder: Path) -> None:
    """After a failure is fixed and retried, each registration exists once."""
    install()
    text = "def register(registry):\n    registry.tools('tides')\n    registry.hook('route', 'tides:route')\n"
    for failure in ("    1 / 0\n", ""):
        (folder / "own_plugin.py").write_text(text + failure)
        sys.modules.pop("own_plugin", None)
        with suppress(PluginError):
            add_modules(["own_plugin"])

    assert installed().tools == [Extension("own_plugin", "tides")]
    assert [*installed().hooks.values()] == [[Extension("own_plugin", "tides:route")]]


def test_a_plugin_target_of_the_wrong_type_is_named() -> None:
    wrong = Extension("tides", f"{__name__}:app")

    with pytest.raises(PluginError, match=rf"'tides': {__name__}:app is not a BaseSettings; mend `register`"):
        wrong.load(BaseSettings)
    with pytest.raises(PluginError, match="'tides': json:nothing cannot be imported: AttributeError"):
        Extension("tides", "json:nothing").load_function()


def test_a_plugin_setting_whose_validator_raises_is_named(
    install: _Install, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """`doctor` does not end with a traceback, and no worker ends without a message."""
    text = """
import pydantic, pydantic_settings, typing
class Tides(pydantic_settings.BaseSettings):
    tide_station: typing.Annotated[str, pydantic.AfterValidator({}.__getitem__)] = "Dover"
def register(registry): registry.settings('own_plugin:Tides')
"""
    (folder / "own_plugin.py").write_text(text)
    monkeypatch.setenv("CHARGEHAND_PLUGINS", "own_plugin")
    monkeypatch.setenv("CHARGEHAND_TIDE_STATION", "Hull")
    install(operations="chargehand_plugins.operations:register", offline="chargehand_plugins.extractive:register")

    assert main(["--explain"]) == 2
    assert "CHARGEHAND_TIDE_STATION: its check failed: KeyError: 'Hull'" in capfd.readouterr().err


_WRONG_VALUES = (
    "4.5", "None", "[3]", "['x']", "[None]", "{}['tide']", "None.tide", "sys.exit(3)", "Choice('a', 3, [])",
)  # fmt: skip
_USES: list[Case] = [
    ("choices('own_plugin:run')", "--explain", ""),
    ("examinations('own_plugin:wait')", "--explain", ""),
    ("model_provider('tide', 'own_plugin:run')", "--explain", "CHARGEHAND_PROVIDER"),
    ("search_service('tide', 'own_plugin:run')", "--explain", "CHARGEHAND_SEARCH"),
    ("code_sandbox('tide', 'own_plugin:wait')", "--crews", "CHARGEHAND_CODE"),
    ("parts('own_plugin:add')", "--crews", ""),
    ("worker_verb('--tide', 'own_plugin:run')", "--tide", ""),
    ("settings('own_plugin:Before')", "--explain", ""),
    ("settings('own_plugin:After')", "--explain", ""),
    ("settings('own_plugin:value')", "--explain", ""),
    ("tools('own_plugin:value')", "--crews", ""),
]
_WRONG_CODE = """
import sys, pydantic, pydantic_settings
from activities.backends import Choice
def run(*_): return {value}
async def wait(*_): return {value}
async def add(parts): parts.request_checks.append({value})
class Before(pydantic_settings.BaseSettings):
    @pydantic.model_validator(mode="before")
    @classmethod
    def check(cls, given): return ({value}).tide
class After(pydantic_settings.BaseSettings):
    @pydantic.model_validator(mode="after")
    def check(self): return ({value}).tide
def __getattr__(name):
    if name == "value": return {value}
    raise AttributeError(name)
def register(registry): registry.{registered}
"""


@pytest.mark.parametrize("case", [(*use, value) for use in _USES for value in _WRONG_VALUES])
def test_a_plugin_value_of_the_wrong_type_is_named_with_the_remedy(
    install: _Install,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    case: tuple[str, str, str, str],
) -> None:
    registered, verb, selected_by, value = case
    (folder / "own_plugin.py").write_text(_WRONG_CODE.format(value=value, registered=registered))
    monkeypatch.setenv(selected_by or "CHARGEHAND_PLUGINS", "tide")
    monkeypatch.setenv("CHARGEHAND_PLUGINS", "own_plugin")
    install(operations="chargehand_plugins.operations:register", offline="chargehand_plugins.extractive:register")
    code = main([verb])

    told = capfd.readouterr().err
    assert (code, told.count("\n"), "The plug-in 'own_plugin': " in told) == (2, 1, True)
    assert any(remedy in told for remedy in ("mend", "@tool", "names what is there"))
    assert "cannot be registered" not in told


_VERBS = """
import typer
def run(tide: "int | str"): ...
unfit, value = typer.Typer(), {}
unfit.command("tide")(run)
def register(registry): registry.verbs("Operate", "own_plugin:{}")
"""


@pytest.mark.parametrize(
    "wrong", [("3", "value"), ("None", "value"), ("typer.Typer", "value"), ("3", "unfit"), ("3", "absent")]
)
def test_unusable_plugin_verbs_cause_only_a_warning(
    install: _Install,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    wrong: tuple[str, str],
) -> None:
    (folder / "own_plugin.py").write_text(_VERBS.format(*wrong))
    monkeypatch.setenv("CHARGEHAND_PLUGINS", "own_plugin")
    install(tides=f"{__name__}:register")
    group = VerbGroups(commands={})
    group.add_plugin_verbs()

    told = capfd.readouterr().err
    assert (told.count("\n"), told.startswith("Warning: The plug-in 'own_plugin': ")) == (1, True)
    assert "mend" in told or "names what is there" in told


def test_plugin_settings_are_read_with_the_worker_settings(install: _Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHARGEHAND_TIDE_STATION", "Hull")
    install()
    unknown, without = describe_unknown({"CHARGEHAND_TIDE_STATION": ""}), settings_type()()
    install(tides=f"{__name__}:register")
    known, settings = describe_unknown({"CHARGEHAND_TIDE_STATION": ""}), settings_type()()

    assert (unknown, known) == (["CHARGEHAND_TIDE_STATION is not a setting"], [])
    assert type(without) is Settings
    assert settings_of(settings, TideSettings).tide_station == "Hull"
    assert settings_of(without, TideSettings).tide_station == "Dover"


def test_a_setting_of_a_missing_plugin_names_the_package_to_install(
    install: _Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A worker does not start without what its operator configured; a command only reports it."""
    install()
    plugins = {"WEBHOOK_HOSTS": "webhooks", "TAPE_REPLAY": "tape", "CALLER_KEY": "caller_key"}
    for name, plugin in plugins.items():
        with monkeypatch.context() as environment:
            environment.setenv(f"CHARGEHAND_{name}", "[]")
            code = main(["--check-settings"])
        told = f"CHARGEHAND_{name} belongs to the plug-in '{plugin}', which is not installed; install"
        assert (code, told in capsys.readouterr().err) == (2, True)
    assert describe_unknown({"CHARGEHAND_CONSOLE_TOKEN": ""}) == [
        "CHARGEHAND_CONSOLE_TOKEN belongs to the plug-in 'console', which is not installed; install chargehand-plugins"
    ]
