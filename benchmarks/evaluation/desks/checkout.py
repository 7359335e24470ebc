"""The airline and retail desks of a checkout of tau2-bench (MIT): its policies, tools, databases and tasks.

Its tools are imported from the checkout. Dependencies that only the rest of its package needs are replaced with
stand-ins if they are not installed.
"""

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pydantic import BaseModel, JsonValue

from benchmarks.evaluation.dataset import NoDataset
from benchmarks.evaluation.desks.desk import Action, Desk, Task

TAU2: Final = {"tau2-retail": "RetailTools", "tau2-airline": "AirlineTools"}
"""The class of each desk's tools."""
_SILENT: Final = logging.getLogger("tau2")
_STAND_INS: Final[Mapping[str, Mapping[str, object]]] = {
    "loguru": {"logger": _SILENT},
    "dotenv": {"load_dotenv": lambda: True},
    "deepdiff": {"DeepDiff": dict},
    "addict": {"Dict": dict},
    "toml": {},
}


class _Criteria(BaseModel):
    actions: tuple[dict[str, Any], ...] | None = None
    communicate_info: tuple[str, ...] | None = None
    reward_basis: tuple[str, ...] = ()


class _Instructions(BaseModel):
    task_instructions: str
    reason_for_call: str
    known_info: str | None = None
    unknown_info: str | None = None


class _Scenario(BaseModel):
    instructions: _Instructions


class _Task(BaseModel):
    id: str
    user_scenario: _Scenario
    initial_state: Mapping[str, JsonValue] | None = None
    evaluation_criteria: _Criteria


def read_checkout(name: str, root: Path) -> Desk:
    """Read one of the desks.

    Raises:
        NoDataset: the folder is not a checkout, or a file in it is missing.
    """
    domain = name.removeprefix("tau2-")
    data = root / "data" / "tau2" / "domains" / domain
    for needed in (data / "db.json", data / "tasks.json", data / "policy.md", root / "src" / "tau2"):
        if not needed.exists():
            raise NoDataset(f"{needed} is missing: --tau2 needs a checkout of github.com/sierra-research/tau2-bench.")
    _SILENT.disabled = True
    tools = _import_tools(domain, root)
    kit = getattr(tools, TAU2[name])
    whole = kit(kit.__annotations__["db"].model_validate_json((data / "db.json").read_text()))
    acting = frozenset(each for each in whole.tools if whole.tool_mutates_state(each))
    tasks = [_read_task(each) for each in json.loads((data / "tasks.json").read_text())]
    methods = {each: getattr(kit, each) for each in whole.tools}
    return Desk(name, (data / "policy.md").read_text(), kit, methods, acting, whole.db, tasks)


def _import_tools(domain: str, root: Path) -> ModuleType:
    """Import a module below the package without the package's own `__init__`, which loads everything."""
    for name, values in _STAND_INS.items():
        if name not in sys.modules and find_spec(name) is None:
            stand_in = ModuleType(name)
            vars(stand_in).update(values)
            sys.modules[name] = stand_in
    package = ModuleType("tau2")
    package.__path__ = [str(root.resolve() / "src" / "tau2")]
    sys.modules.setdefault("tau2", package)
    return import_module(f"tau2.domains.{domain}.tools")


def _read_task(written: Mapping[str, Any]) -> Task:
    task = _Task.model_validate(written)
    if task.initial_state:
        raise NoDataset(f"Task {task.id} begins with a state of its own, which is not supported.")
    told, criteria = task.user_scenario.instructions, task.evaluation_criteria
    unknown = f"You do not know: {told.unknown_info}" if told.unknown_info else ""
    return Task(
        id=task.id,
        says=_paragraphs((told.reason_for_call, told.known_info)),
        knows=_paragraphs((unknown, told.task_instructions)),
        actions=tuple(Action(name=each["name"], arguments=each["arguments"]) for each in criteria.actions or ()),
        tells=criteria.communicate_info or (),
        told_counts="COMMUNICATE" in criteria.reward_basis,
    )


def _paragraphs(texts: Sequence[str | None]) -> str:
    return "\n\n".join(text.strip() for text in texts if text)
