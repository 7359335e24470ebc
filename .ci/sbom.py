"""Add to a bill of materials what uv leaves out: licences, as installed packages state them, and the image's base."""

import json
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

_LONGEST = 60
"""A longer field `License` is the text of one."""


def licences(name: str) -> list[dict[str, Any]]:
    """List the licences that a package states; none if it is not installed here, or states none."""
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        return []
    if expression := stated.get("License-Expression"):
        return [{"expression": expression}]
    classified = [each.rpartition(" :: ")[2] for each in stated.get_all("Classifier") or () if "License ::" in each]
    text = stated.get("License") or ""
    return [{"license": {"name": each}} for each in classified or ([text] if 0 < len(text) < _LONGEST else [])]


def main(file: Path, dockerfile: Path) -> None:
    bill = json.loads(file.read_text(encoding="utf-8"))
    for component in bill["components"]:
        if found := licences(component["name"]):
            component["licenses"] = found
    base = re.search(r"^ARG \w+=(\S+:\S+)$|^FROM (\S+:\S+)", dockerfile.read_text(encoding="utf-8"), re.MULTILINE)
    if base:
        bill["components"].append({"type": "container", "name": base[1] or base[2], "description": "the image's base"})
    file.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    unknown = [each["name"] for each in bill["components"] if each["type"] == "library" and "licenses" not in each]
    print(f"{file}: {len(bill['components'])} components; no licence is stated here by: {', '.join(unknown) or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
