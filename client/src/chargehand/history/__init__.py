"""The one reader of Temporal's histories; every view of a session is a view of it.

`projection.py` projects the events of one workflow, in order, to typed events and steps; `records.py` has the parts of
stored payloads that it reads. The views: `follow.py` yields the events as they happen, from any cursor;
`tree.py` reads a whole session, for its trace, status and spend.
They raise `RPCError` if the server does not answer or the workflow does not exist.
"""
