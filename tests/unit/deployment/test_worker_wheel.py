"""How the build puts the worker's modules below one package."""

import pytest

from deploy.worker.build_hook import rename_imports


def test_the_wheel_build_renames_only_imports_of_moved_modules() -> None:
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


def test_an_import_that_cannot_be_renamed_stops_the_wheel_build() -> None:
    cases = ["import activities.contracts.tool\n", 'start("workflows.registry")\n', 'f"activities.{x}"\n']
    for source in cases:
        with pytest.raises(ValueError, match=r"module\.py:1: "):
            rename_imports(source, "module.py")
