"""Tokens for an MCP server by OAuth, for a client without a person."""

from collections.abc import Mapping

from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from activities.contracts.mcp_declaration import OAuthClient


class _Tokens:
    """Keeps a token in memory: another worker, or a restart, asks for one of its own."""

    def __init__(self) -> None:
        self._token: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Forget it: the client is the declared one."""


def oauth_of(declared: OAuthClient, url: str, environment: Mapping[str, str]) -> ClientCredentialsOAuthProvider:
    """Build what asks for tokens; the credentials are sent to the declared authorization server only."""
    return ClientCredentialsOAuthProvider(
        server_url=url,
        storage=_Tokens(),
        client_id=environment[declared.client_id],
        client_secret=environment[declared.client_secret],
        issuer=declared.issuer,
    )
