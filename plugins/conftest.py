"""Makes the fixtures of the core's tests available to the tests of plug-ins."""

from tests.conftest import client, install, no_keys
from tests.workflows.conftest import desk, environment, forgetful, run

__all__ = ["client", "desk", "environment", "forgetful", "install", "no_keys", "run"]
