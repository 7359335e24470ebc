"""How the build puts the worker's modules below one package."""

import pytest

from deploy.worker.build_hook import rename_imports


def test_imports_of_moved_modules_are_renamed_and_nothing_else() -> None:
    """Other imports, relative ones, texts and line numbers stay as they are."""
    source = '''"""Reads `activities.contracts.tool`."""
from activities.contracts.tool import (
    Tool,
)
from activitiesque import other
from .workflows import near
def late():
    from workflows import registry; return "from activities.contracts.tool import Tool"
'''

    assert rename_imports(source, "module.py") == (
        source.replace(
            "from activities.contracts.tool import (", "from chargehand_worker.activities.contracts.tool import ("
        ).replace("    from workflows", "    from chargehand_worker.workflows")
    )


def test_what_cannot_be_renamed_stops_the_build() -> None:
    """A module that would not be found in the wheel is named with its line."""
    cases = ["import activities.contracts.tool\n", 'start("workflows.registry")\n', 'f"activities.{x}"\n']
    for source in cases:
        with pytest.raises(ValueError, match=r"module\.py:1: "):
            rename_imports(source, "module.py")
