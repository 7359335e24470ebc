"""The rows use the environment of workflow tests: an in-memory server and a scripted model."""

from tests.workflows.conftest import environment, run

__all__ = ["environment", "run"]
