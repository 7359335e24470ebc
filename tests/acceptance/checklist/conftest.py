"""The rows run in the environment of the tests of workflows: a server in memory and a scripted model."""

from tests.workflows.conftest import environment, run

__all__ = ["environment", "run"]
