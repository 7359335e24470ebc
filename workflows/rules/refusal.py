"""The refusal of a person's request."""


class Refused(Exception):  # noqa: N818  # it is raised as a statement of fact
    """The session refuses a request; the message says why."""
