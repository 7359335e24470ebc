"""Search attributes of sessions, by which servers list and filter them: their keys, and their registration."""

from typing import TYPE_CHECKING, Any, Final, TypeVar

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.common import SearchAttributeKey, SearchAttributeUpdate, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from chargehand.wire import SEARCH_ATTRIBUTE_TYPES, SearchAttribute

if TYPE_CHECKING:
    from temporalio.client import Client

_V = TypeVar("_V", str, float, int)

STATE: Final = SearchAttributeKey.for_keyword(SearchAttribute.STATE)
CREW: Final = SearchAttributeKey.for_keyword(SearchAttribute.CREW)
TENANT: Final = SearchAttributeKey.for_keyword(SearchAttribute.TENANT)
THREAD: Final = SearchAttributeKey.for_keyword(SearchAttribute.THREAD)
STOP_REASON: Final = SearchAttributeKey.for_keyword(SearchAttribute.STOP_REASON)
DOLLARS: Final = SearchAttributeKey.for_float(SearchAttribute.DOLLARS)
TURNS: Final = SearchAttributeKey.for_int(SearchAttribute.TURNS)

_PROBES: Final = {"Keyword": "''", "Double": "0.5", "Int": "0"}
"""A value of each type: an attribute of another type refuses it."""
_INDEXED: Final = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
}
UNANSWERABLE: Final = {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.UNIMPLEMENTED}
"""How a server answers a query with an attribute that it does not know, or one that it cannot answer at all."""


def change_of(
    listed: TypedSearchAttributes, key: SearchAttributeKey[_V], value: _V
) -> list[SearchAttributeUpdate[Any]]:
    """Build the update of one attribute; nothing if it has that value."""
    return [] if listed.get(key) == value else [key.value_set(value)]


async def missing_attributes(client: "Client") -> tuple[SearchAttribute, ...]:
    """List the attributes that a namespace lacks, or has with another type; works on Temporal Cloud too."""
    if await _is_known(client, *SearchAttribute):
        return ()
    return tuple([each for each in SearchAttribute if not await _is_known(client, each)])


async def register_attributes(client: "Client") -> tuple[SearchAttribute, ...]:
    """Register the attributes that a namespace lacks, and return them.

    Raises:
        RPCError: the server refuses, as Temporal Cloud does: there they are registered by `tcld` or in its Web UI.
    """
    absent = await missing_attributes(client)
    if absent:
        types = {str(each): _INDEXED[SEARCH_ATTRIBUTE_TYPES[each]] for each in absent}
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=client.namespace, search_attributes=types), retry=True
        )
    return absent


async def _is_known(client: "Client", *attributes: SearchAttribute) -> bool:
    query = " AND ".join(f"{each} = {_PROBES[SEARCH_ATTRIBUTE_TYPES[each]]}" for each in attributes)
    try:
        await client.count_workflows(query)
    except RPCError as error:
        if error.status in UNANSWERABLE:
            return False
        raise
    return True
