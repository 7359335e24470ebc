"""Real documents that are on every machine with Debian and this project's environment, gathered into one folder."""

import gzip
import re
import tomllib
from collections.abc import Iterator
from email import message_from_string
from importlib import metadata
from pathlib import Path
from pydoc_data import topics
from typing import Final

_ROOT: Final = Path(__file__).resolve().parent.parent
_LICENSES: Final = Path("/usr/share/common-licenses")
_DOCUMENTATION: Final = Path("/usr/share/doc")
_RELEASES: Final = Path("/usr/share/distro-info/debian.csv")
_DEBIAN_PACKAGES: Final = (
    "adduser apt base-files base-passwd bash coreutils dash debian-archive-keyring debianutils dpkg e2fsprogs findutils"
    " grep gzip init-system-helpers libc6 mawk mount ncurses-base openssl passwd sed tar tzdata util-linux"
)
_READ: Final = re.compile(
    r"(?:readme|faq|news\.debian|users-and-groups\.txt|intro|posix|rbash|bugs|todo)", re.IGNORECASE
)
_PARTS_OF_OTHERS: Final = frozenset({"compound", "specialnames", "types"})
"""Topics of `pydoc` that only repeat other topics, word for word."""
_SHORTEST_CHARACTERS: Final = 400
"""A description of fewer says nothing that could be asked about."""


def gather(folder: Path) -> tuple[str, ...]:
    """Write the documents into a folder; the names that they get there, in order."""
    names: list[str] = []
    for name, text in _texts():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        names.append(name)
    return tuple(sorted(names))


def _texts() -> Iterator[tuple[str, str]]:
    yield from _topics()
    yield from _licenses()
    yield from _package_descriptions()
    yield from _debian_documents()
    if _RELEASES.is_file():
        yield "debian/releases.csv", _RELEASES.read_text(encoding="utf-8")


def _topics() -> Iterator[tuple[str, str]]:
    """What `help()` says about Python: pages of the language reference that come with every CPython."""
    for topic, text in topics.topics.items():
        if topic not in _PARTS_OF_OTHERS:
            yield f"python/{topic}.txt", text


def _licenses() -> Iterator[tuple[str, str]]:
    if _LICENSES.is_dir():
        for file in sorted(_LICENSES.iterdir()):
            if file.is_file() and not file.is_symlink():
                yield f"licenses/{file.name}.txt", file.read_text(encoding="utf-8", errors="replace")


def _package_descriptions() -> Iterator[tuple[str, str]]:
    """The README of each Python package that the lock file pins."""
    locked = tomllib.loads((_ROOT / "uv.lock").read_text(encoding="utf-8"))
    for package in locked["package"]:
        try:
            written = metadata.distribution(package["name"]).read_text("METADATA")
        except metadata.PackageNotFoundError:
            continue
        told = message_from_string(written or "")
        text = str(told.get_payload()) or told.get("Description", "")
        if len(text) > _SHORTEST_CHARACTERS:
            ending = "md" if told.get("Description-Content-Type", "").startswith("text/markdown") else "txt"
            summary = told.get("Summary", "")
            yield f"packages/{package['name']}.{ending}", f"{summary}\n\n{text}" if summary else text


def _debian_documents() -> Iterator[tuple[str, str]]:
    for package in _DEBIAN_PACKAGES.split():
        files = sorted((_DOCUMENTATION / package).glob("*")) if (_DOCUMENTATION / package).is_dir() else []
        for file in files:
            if file.is_file() and not file.is_symlink() and _READ.match(file.name) and not file.name.endswith(".html"):
                data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
                name = file.name.removesuffix(".gz").removesuffix(".txt").removesuffix(".md")
                yield f"debian/{package}/{name}.txt", data.decode("utf-8", errors="replace")
