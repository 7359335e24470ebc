"""What a worker adds for these evaluations: a desk's tools and, if requested, an oracle in place of the models.

The tools call the desk's service, as an operator's tools would call theirs; acting tools can look up a call.
"""

import os
from collections.abc import Callable
from datetime import timedelta
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import httpx2
from pydantic_core import to_jsonable_python

from activities.tools.own import check_own_tools, open_own_tools
from benchmarks.evaluation.desks.desk import Action, Desk, read_desk
from benchmarks.evaluation.desks.oracle import Oracle
from benchmarks.evaluation.desks.service import Answer, Request
from chargehand.plugins import Registry
from chargehand.tools import Tool, ToolContext, ToolError, tool
from worker.parts import WorkerParts

DESK: Final = "EVALUATION_DESK"
"""Environment variable that names the desk."""
TAU2: Final = "EVALUATION_TAU2"
"""Environment variable that names the tau2-bench checkout; empty for a desk of this repository."""
SERVICE: Final = "EVALUATION_SERVICE"
"""Environment variable with the address of the desk's service."""
ORACLE: Final = "EVALUATION_ORACLE"
"""Environment variable that is set if an oracle answers."""
_SETTLES: Final = timedelta(seconds=1)
"""The service applies a request as soon as it arrives."""


def register(registry: Registry) -> None:
    """Add the tools and the oracle to the worker."""
    registry.parts(f"{__name__}:add_desk")


async def add_desk(parts: WorkerParts) -> None:
    """Add the parts of the desk that the environment names."""
    desk = read_desk(os.environ[DESK], Path(os.environ[TAU2]) if os.environ[TAU2] else None)
    client = await parts.closing.enter_async_context(
        httpx2.AsyncClient(base_url=os.environ[SERVICE], trust_env=False, timeout=60)
    )
    definitions = [desk_tool(desk, name, client) for name in desk.tools]
    check_own_tools(definitions, parts.tools)
    for each in (await open_own_tools(definitions, 1, parts.closing)).values():
        parts.add_tool(each)
    if os.environ[ORACLE]:
        parts.traffic_wrappers.append(Oracle(desk).wrap)


def desk_tool(desk: Desk, name: str, client: httpx2.AsyncClient) -> Tool[..., Any]:
    """Make a tool from a method: its name, docstring and parameters, with a body that calls the service."""
    method = desk.tools[name]

    async def ask(context: ToolContext, arguments: dict[str, object], *, is_lookup: bool = False) -> Answer:
        action = Action(name=name, arguments=to_jsonable_python(arguments))
        request = Request(conversation=context.session, key=context.idempotency_key, action=action, is_lookup=is_lookup)
        response = await client.post("/", content=request.model_dump_json())
        return Answer.model_validate_json(response.raise_for_status().text)

    async def call(context: ToolContext, **arguments: object) -> str | None:
        answer = await ask(context, arguments)
        if answer.error:
            raise ToolError(answer.error)
        return answer.result

    async def look_up(context: ToolContext) -> str | None:
        return (await ask(context, {}, is_lookup=True)).result

    acts = name in desk.acting
    function = _with_signature(call, method, name)
    made = tool(capabilities=["reads_private"], acts=acts, settles_within=_SETTLES if acts else None)(function)
    if acts:
        made.lookup(look_up)
    return made


def _with_signature(call: Callable[..., Any], method: Callable[..., object], name: str) -> Callable[..., Any]:
    hints = get_type_hints(method, include_extras=True)
    own = [each for each in signature(method).parameters.values() if each.name != "self"]
    typed = [each.replace(annotation=_without_dict(hints[each.name]), kind=Parameter.KEYWORD_ONLY) for each in own]
    context = Parameter("context", Parameter.KEYWORD_ONLY, annotation=ToolContext)
    call.__name__, call.__doc__ = name, method.__doc__
    call.__annotations__ = {each.name: each.annotation for each in (*typed, context)}
    vars(call)["__signature__"] = signature(method).replace(parameters=[*typed, context], return_annotation=str)
    return call


def _without_dict(hint: Any) -> Any:
    """Drop `dict` from unions with a model: the model describes the fields, which the LLM needs to know."""
    if get_origin(hint) is list:
        return list[_without_dict(get_args(hint)[0])]
    if get_origin(hint) in {Union, UnionType}:
        return Union[tuple(each for each in get_args(hint) if each is not dict)]  # noqa: UP007  # built at run time
    return hint
