"""An MCP server as a crew file declares it."""

import re
from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from activities.backends import WebAddress
from chargehand.contracts import Capability, TypedByPeople
from chargehand.contracts.base import NAME, Flag, Form

LONGEST_TOOL_NAME: Final = 40

_VARIABLE: Final = "[A-Za-z_][A-Za-z0-9_]{0,99}"
Variable = Annotated[str, Form(f"^{_VARIABLE}$", "must be the name of an environment variable, not its value")]
"""The name of an environment variable of the worker."""
ServerName = Annotated[str, Form(r"^[a-z][a-z0-9-]{0,19}$", "must be 20 lower-case letters, digits or - at most")]
"""A lower-case name: a letter, then letters, digits or `-`, 20 characters at most."""
ToolName = Annotated[str, Form(r"^[A-Za-z0-9_./-]{1,128}$", "must be the name of a tool as its server spells it")]
"""The name of a tool as its server spells it."""
_Header = Annotated[str, Form(r"^[A-Za-z0-9-]{1,100}$", "must be the name of a header, such as X-Account")]
_REFERENCE: Final = rf"\$\{{credential:({NAME[1:-1]})\}}"
_CREDENTIAL: Final = re.compile(_REFERENCE)
_HeaderValue = Annotated[
    str,
    Form(
        rf"^({_VARIABLE}|[ -~]*{_REFERENCE}[ -~]*)$",
        "must be the name of an environment variable that holds the value, or a text such as Bearer ${credential:crm}",
        1_000,
    ),
]
"""The variable that holds a header's value, or the value with the calling user's credential in it."""
_Text = Annotated[str, Form(r"^[^\x00]+$", "must be a text of at most 1,000 characters, without NUL", 1_000)]


class OAuthClient(TypedByPeople):
    """Client credentials with which an authorization server issues tokens (`client_credentials`)."""

    issuer: WebAddress
    """The address of the authorization server, the only place to which the credentials are sent."""
    client_id: Variable
    """The variable of the worker's environment that holds the id."""
    client_secret: Variable
    """The variable of the worker's environment that holds the secret."""


class McpDeclaration(TypedByPeople):
    """An MCP server, and which of its tools the crew's agents may have."""

    name: ServerName
    """The server's name; agents see its tools as `<name>_<tool>`."""
    command: _Text | None = None
    """The program of a stdio server, started with the worker."""
    args: Annotated[tuple[_Text, ...], Field(max_length=50)] = ()
    """Arguments of the command. Never secrets, since other users of the machine can see them."""
    environment: Annotated[tuple[Variable, ...], Field(max_length=50)] = ()
    """Variables of the worker's environment passed to the command, including credentials."""
    url: WebAddress | None = None
    """The address of a streamable HTTP server."""
    bearer_token: Variable | None = None
    """The variable of the worker's environment that holds the token for `url`."""
    oauth: OAuthClient | None = None
    """The client that gets tokens for `url` by OAuth."""
    headers: Annotated[dict[_Header, _HeaderValue], Field(max_length=20)] = {}
    """Additional headers for `url`: each name with the variable that holds its value, or a text that contains the
    calling user's credential, such as `Bearer ${credential:crm}`. The latter are sent only with calls."""
    tools: Annotated[tuple[ToolName, ...], Field(max_length=40)] = ()
    """The tools that the crew may use, by the server's names; all others are omitted."""
    resources: Annotated[tuple[_Text, ...], Field(max_length=40)] = ()
    """URIs of resources that the crew may read by `<name>_read_resource`."""
    acts: tuple[ToolName, ...] = ()
    """Tools with side effects."""
    approval: tuple[ToolName, ...] = ()
    """Tools whose every call needs a person's approval."""
    capabilities: tuple[Capability, ...] = ("reads_untrusted", "reaches_out")
    """What the tools let an agent do."""
    digest: Annotated[str, Form(r"^[0-9a-f]{64}$", "must be the digest that `chargehand doctor` shows")] | None = None
    """Digest of the approved tool descriptions, from `chargehand doctor`; if absent, the first seen are approved."""
    elicitation: Flag = False
    """Whether the server may ask a person during a call, in sessions that allow questions. Its calls are then made
    one at a time, and a call with a question is repeated with the answer."""
    start_seconds: Annotated[float, Field(ge=1, le=120)] = 20
    """Maximum time for the server to start and list its tools."""
    call_seconds: Annotated[float, Field(ge=1, le=600)] = 60
    """Maximum duration of a call."""

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of the worker's environment that it needs."""
        token = (self.bearer_token,) if self.bearer_token else ()
        client = (self.oauth.client_id, self.oauth.client_secret) if self.oauth else ()
        headers = (each for each in self.headers.values() if not _CREDENTIAL.search(each))
        return (*self.environment, *headers, *token, *client)

    @property
    def credentials(self) -> tuple[str, ...]:
        """Names of the calling user's credentials sent with its calls."""
        return tuple(dict.fromkeys(name for each in self.headers.values() for name in _CREDENTIAL.findall(each)))

    def headers_of(self, values: Mapping[str, str], credentials: Mapping[str, str]) -> dict[str, str]:
        """Build the headers: those with a user's credential, if any, replace the worker's."""
        filled = {"Authorization": f"Bearer {values[self.bearer_token]}"} if self.bearer_token else {}
        for header, value in self.headers.items():
            if not _CREDENTIAL.search(value):
                filled[header] = values[value]
            elif credentials:
                filled = {name: each for name, each in filled.items() if name.lower() != header.lower()}
                filled[header] = _CREDENTIAL.sub(lambda found: credentials[found[1]], value)
        return filled

    @property
    def tool_names(self) -> Mapping[str, str]:
        """The tools by their names for agents."""
        return {agent_tool_name(self.name, tool): tool for tool in self.tools}

    @property
    def resource_tool(self) -> str:
        """The name under which agents see the tool that reads `resources`."""
        return f"{self.name}_read_resource"

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        if template := next((each for each in self.resources if "{" in each), ""):
            raise ValueError(f"`resources`: '{template}' is a template; name each address that agents may read")
        if self.elicitation and self.acts:
            raise ValueError(
                "`elicitation` has a call made again, so none of `acts` can be beside it; declare the server twice"
            )
        return self

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.command is None) == (not self.url):
            raise ValueError("must have either a `command`, for stdio, or a `url`, for streamable HTTP")
        if self.url and (self.args or self.environment):
            raise ValueError("`args` and `environment` belong to a `command`; credentials for a `url` are `headers`")
        if self.command and (self.headers or self.bearer_token or self.oauth):
            raise ValueError(
                "`headers`, `bearer_token` and `oauth` belong to a `url`; a `command` is given an `environment`"
            )
        if self.oauth and (self.headers or self.bearer_token):
            raise ValueError("`oauth` brings the credentials; leave out `headers` and `bearer_token`")
        if self.url and "@" in self.url.partition("://")[2].partition("/")[0]:
            raise ValueError("`url` must not contain credentials; name a variable as `bearer_token` or in `headers`")
        if not self.tools and not self.resources:
            raise ValueError("name at least one of `tools` or `resources`")
        if len(self.tool_names) < len(self.tools) or (self.resources and self.resource_tool in self.tool_names):
            raise ValueError(
                f"two of `tools` have the same name for agents, in lower case and {LONGEST_TOOL_NAME} characters"
            )
        for field in ("acts", "approval"):
            if unknown := set(getattr(self, field)).difference(self.tools):
                raise ValueError(f"`{field}` names '{min(unknown)}', which is not one of `tools`")
        return self


def agent_tool_name(server: str, tool: str) -> str:
    """Build a tool's name for agents from characters that every provider accepts."""
    plain = "".join(character if character.isalnum() or character in "_-" else "_" for character in tool.lower())
    return f"{server}_{plain}"[:LONGEST_TOOL_NAME]
