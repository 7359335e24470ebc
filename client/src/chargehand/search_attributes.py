"""Search attributes with which servers list and filter sessions: their keys, and a check for missing ones."""

from typing import TYPE_CHECKING, Any, Final, TypeVar

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
"""A value of each type, which an attribute of another type refuses."""
UNANSWERABLE: Final = {RPCStatusCode.INVALID_ARGUMENT, RPCStatusCode.UNIMPLEMENTED}
"""Status codes of servers for a query with an unknown attribute, or one that they cannot answer at all."""


def change_of(
    listed: TypedSearchAttributes, key: SearchAttributeKey[_V], value: _V
) -> list[SearchAttributeUpdate[Any]]:
    """Build the update of one attribute; empty if it already has that value."""
    return [] if listed.get(key) == value else [key.value_set(value)]


async def missing_attributes(client: "Client") -> tuple[SearchAttribute, ...]:
    """List the attributes that a namespace lacks, or has with another type; works on Temporal Cloud too."""
    if await _is_known(client, *SearchAttribute):
        return ()
    return tuple([each for each in SearchAttribute if not await _is_known(client, each)])


async def _is_known(client: "Client", *attributes: SearchAttribute) -> bool:
    query = " AND ".join(f"{each} = {_PROBES[SEARCH_ATTRIBUTE_TYPES[each]]}" for each in attributes)
    try:
        await client.count_workflows(query)
    except RPCError as error:
        if error.status in UNANSWERABLE:
            return False
        raise
    return True
