"""Prepare a namespace: register the search attributes of sessions."""

from collections.abc import Sequence

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError

from chargehand.wire import SEARCH_ATTRIBUTE_TYPES, SearchAttribute
from chargehand_cli.connection import Connection
from chargehand_cli.rendering.escaping import one_safe_line
from chargehand_cli.terminal import Exit, put, say


async def prepare(connection: Connection) -> Exit:
    missing = await connection.chargehand.missing_search_attributes()
    if not missing:
        put("All search attributes of sessions are registered.")
        return Exit.DONE
    client = connection.chargehand.client
    try:
        await register_attributes(client, missing)
    except RPCError as error:
        say(f"The server does not let this client register search attributes: {one_safe_line(error.message)}")
        for line in _other_ways(missing, connection):
            say(line)
        return Exit.FAILED
    put(f"Registered in namespace {client.namespace}: {', '.join(missing)}")
    put("Workers use them within a minute, in sessions that start after that.")
    return Exit.DONE


async def register_attributes(client: Client, missing: Sequence[SearchAttribute]) -> None:
    """Register attributes in a namespace; Temporal Cloud refuses that with an `RPCError`."""
    types = {
        str(each): IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{SEARCH_ATTRIBUTE_TYPES[each].upper()}")
        for each in missing
    }
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=types)
    await client.operator_service.add_search_attributes(request, retry=True)


def _other_ways(missing: Sequence[SearchAttribute], connection: Connection) -> list[str]:
    namespace = connection.chargehand.client.namespace
    typed = [(each, SEARCH_ATTRIBUTE_TYPES[each]) for each in missing]
    cloud = " ".join(f"--search-attribute {name}={kind}" for name, kind in typed)
    own = " ".join(f"--name {name} --type {kind}" for name, kind in typed)
    return [
        "On Temporal Cloud, in the Web UI under Namespaces, Edit, Custom Search Attributes, or by:",
        f"  tcld namespace search-attributes add --namespace {namespace} {cloud}",
        "On your own server, as an operator:",
        f"  {connection.temporal_command(f'operator search-attribute create {own}')}",
    ]
