"""What a person asks for, and a session does not do."""


class Refused(Exception):  # noqa: N818  # it is raised as a statement of fact
    """The session refuses; the message says why."""
