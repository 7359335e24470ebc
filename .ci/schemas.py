"""Check that the JSON Schemas of messages still take and give what those of the newest release did.

Without a tag `v*` there is no release, and nothing to keep.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = "docs/schemas"
Schema = Mapping[str, Any]


def breaks(path: str, old: Any, new: Any) -> Iterator[str]:
    """Yield what a schema no longer has of an older one, or newly requires."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return
    for name in old.get("properties", {}).keys() - new.get("properties", {}).keys():
        yield f"{path}.{name} is gone"
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{path}.{name} is required now"
    for value in [each for each in old.get("enum", ()) if each not in new.get("enum", (each,))]:
        yield f"{path} no longer takes {value!r}"
    if (before := old.get("type")) != (now := new.get("type")) and before is not None:
        yield f"{path} was {before} and is {now}"
    for key in ("properties", "$defs"):
        for name, part in old.get(key, {}).items():
            yield from breaks(f"{path}.{name}", part, new.get(key, {}).get(name))
    yield from breaks(f"{path}[]", old.get("items"), new.get("items"))


def _git(*command: str) -> str:
    run = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603, S607  # our own command
    return run.stdout


def problems() -> list[str]:
    """Compare the schemas of the checkout with those of the newest release."""
    tag = _git("describe", "--tags", "--abbrev=0", "--match", "v*").strip()
    found: list[str] = []
    for name in _git("ls-tree", "--name-only", tag, f"{FOLDER}/").split() if tag else ():
        current = ROOT / name
        if not current.is_file():
            found.append(f"{name} is gone")
            continue
        old, new = json.loads(_git("show", f"{tag}:{name}")), json.loads(current.read_text(encoding="utf-8"))
        found += breaks(Path(name).stem, old, new)
    return found


if __name__ == "__main__":
    sys.exit("\n".join(problems()) or 0)
