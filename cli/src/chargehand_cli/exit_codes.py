"""What the exit codes mean."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command; they are part of the interface."""

    DONE = 0
    """It worked; a report is complete."""
    FAILED = 1
    """The session failed, was cancelled or terminated; or `doctor` or `replay` found something wrong."""
    BAD_INPUT = 2
    """The request, an option or a session id cannot be used."""
    PARTIAL = 3
    """There is a report, but its plan was not carried out to the end or nothing in it succeeded."""
    UNREACHABLE = 4
    """The Temporal server or a worker does not answer."""
    INTERRUPTED = 130
    """Ctrl-C or SIGTERM."""
