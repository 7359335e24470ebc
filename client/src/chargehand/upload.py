"""Uploads documents: copies files and folders to where the workers read them, a directory or a bucket.

`<root>/<first two hex digits>/<sha256>` holds a file's bytes. A folder is a manifest, which is an artifact like any
other: `{"format": "chargehand-manifest-1", "files": [{"name", "sha256", "bytes"}], "skipped": [{"name", "reason"}]}`.
"""

import codecs
import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path, PurePath
from typing import Final, NamedTuple
from urllib.parse import quote

from chargehand.bucket import bucket_location, open_folder
from chargehand.errors import BucketError, UploadRefused
from chargehand.payloads.at_rest import store_content
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionError

MANIFEST_FORMAT: Final = "chargehand-manifest-1"
MOST_FILES: Final = 2_000
MOST_BYTES: Final = 500_000_000
MOST_FILE_BYTES: Final = 50_000_000

_MOST_ENTRIES: Final = 100_000
_MOST_SKIPPED_LISTED: Final = 1_000
READABLE: Final = frozenset(
    """
    .pdf .docx .pptx .odt .odp .epub .rtf .xlsx .xlsm .xlsb .xls .ods .csv .tsv .tab .json .jsonl
    .ndjson .md .markdown .mdx .html .htm .xhtml .eml .mht .mhtml .png .jpg .jpeg .webp
    """.split()  # noqa: SIM905  # a list of words reads best as text
)
"""Suffixes of formats that workers can read; any other file is uploaded if it is text."""
_READABLE_WORDS: Final = "PDF, DOCX, PPTX, ODT, ODP, EPUB, RTF, EML, XLSX, ODS, CSV, pictures, HTML and any text"
_WIDE_TEXT: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CONTROLS: Final = bytes({*range(1, 32)} - {*b"\t\n\f\r\x1b"})
SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


NamedContent = tuple[str, bytes]
"""A document in memory: its name, whose suffix gives the format, and its content."""


class _Skipped(NamedTuple):
    name: str
    reason: str


class _Upload:
    """Stores documents by digest in a directory or bucket, and counts them."""

    def __init__(self, root: Path | str, encryption: Encryption | None) -> None:
        self.directory = None if bucket_location(root) else Path(root).resolve()
        """The directory, if it is on this machine."""
        self.store = partial(store_content, open_folder(root), encryption)
        self._files = self._bytes = 0

    def put(self, name: Path | str, content: bytes) -> str:
        """Store a document and return its digest; refuse documents beyond the maximum."""
        self._files += 1
        self._bytes += len(content)
        if self._files > MOST_FILES:
            raise UploadRefused(f"More than {MOST_FILES:,} files, reached at {name}: name a smaller folder.")
        if self._bytes > MOST_BYTES:
            raise UploadRefused(f"More than {MOST_BYTES // 1_000_000} MB, reached at {name}: name a smaller folder.")
        return self.store(content)


def store_documents(
    documents: Iterable[Path | NamedContent],
    artifact_root: Path | str,
    *,
    on_skip: Callable[[str, str], None] = lambda _name, _reason: None,
    encryption: Encryption | None = None,
) -> tuple[str, ...]:
    """Copy documents to the workers' location and return their URIs; existing content is not copied again.

    A document is a file, a folder, or a name with bytes.

    `artifact_root` is a directory, `s3://bucket/prefix` or `gs://bucket/prefix`. `on_skip` gets the name and
    reason of each skipped file of a folder. With `encryption`, files are encrypted and workers need its keys.
    """
    uris: dict[str, None] = {}
    try:
        upload = _Upload(artifact_root, encryption)
    except BucketError as error:
        raise UploadRefused(str(error)) from error
    for document in documents:
        name = document[0] if isinstance(document, tuple) else document
        try:
            uris[_store_one(document, upload, on_skip)] = None
        except (BucketError, ProtectionError) as error:
            raise UploadRefused(f"{name} cannot be uploaded: {error}") from error
        except FileNotFoundError as error:
            raise UploadRefused(f"There is no file or folder {name}.") from error
        except (OSError, RuntimeError, ValueError) as error:  # a path may contain invalid characters
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UploadRefused(f"{name} cannot be uploaded to {artifact_root}: {reason}.") from error
    return tuple(uris)


def _store_one(document: Path | NamedContent, upload: _Upload, on_skip: Callable[[str, str], None]) -> str:
    if isinstance(document, tuple):
        return _store_content(*document, upload)
    path = document.expanduser().resolve(strict=True)
    if path.is_dir():
        return _store_folder(path, upload, on_skip)
    if problem := _problem(path, path.name):
        raise UploadRefused(f"{path} cannot be used: {problem}.")
    return f"artifact:{upload.put(path, path.read_bytes())}/{quote(path.name)}"


def _store_content(name: str, content: bytes, upload: _Upload) -> str:
    problem = (
        "its name is not that of a file" if name in {"", ".", ".."} or "/" in name else _size_problem(len(content))
    )
    if problem := problem or _kind_problem(name, lambda: content):
        raise UploadRefused(f"{_printable(name)!r} cannot be used: {problem}.")
    return f"artifact:{upload.put(name, content)}/{quote(name)}"


def _store_folder(folder: Path, upload: _Upload, on_skip: Callable[[str, str], None]) -> str:
    files: list[dict[str, str | int]] = []
    skipped: list[_Skipped] = []
    for path in _files_below(folder, skipped, except_for=upload.directory):
        name = path.relative_to(folder).as_posix()
        if problem := _problem(path, name):
            skipped.append(_Skipped(_printable(name), problem))
            continue
        content = path.read_bytes()
        files.append({"name": name, "sha256": upload.put(path, content), "bytes": len(content)})
    for one in skipped:
        on_skip(*one)
    if not files:
        why = f"; {len(skipped)} left out, the first one because {skipped[0].reason}" if skipped else ""
        raise UploadRefused(f"The folder {folder} holds no document that can be read{why}.")
    manifest = {
        "format": MANIFEST_FORMAT,
        "files": sorted(files, key=lambda file: str(file["name"])),
        "skipped": [one._asdict() for one in skipped[:_MOST_SKIPPED_LISTED]],
    }
    digest = upload.store(json.dumps(manifest, ensure_ascii=False, indent=1).encode())
    return f"artifact:{digest}/{quote(_printable(folder.name) or 'documents', safe='')}/"


def _files_below(folder: Path, skipped: list[_Skipped], except_for: Path | None) -> Iterator[Path]:
    """Walk a folder in a fixed order, skipping hidden files; report links that lead outside as skipped."""
    entries = 0
    for place, folders, names in os.walk(folder):
        here = Path(place)
        subfolders = (name for name in folders if not name.startswith(".") and name not in SKIPPED_FOLDERS)
        folders[:] = sorted(name for name in subfolders if here / name != except_for)
        entries += len(folders) + len(names)
        if entries > _MOST_ENTRIES:
            raise UploadRefused(f"{folder} holds more than {_MOST_ENTRIES:,} files and folders: name a smaller folder.")
        for name in sorted(names):
            path = here / name
            if name.startswith("."):
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(folder):
                skipped.append(
                    _Skipped(_printable(path.relative_to(folder).as_posix()), "it is a link out of the folder")
                )
                continue
            yield path


def _problem(path: Path, name: str) -> str:
    """Explain why a file is unusable; empty if it is usable."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return "it is not a regular file" if not path.is_file() else "it may not be read"
    return _size_problem(path.stat().st_size) or _kind_problem(name, path.read_bytes)


def _size_problem(size: int) -> str:
    if size == 0 or size > MOST_FILE_BYTES:
        return "it is empty" if size == 0 else f"it is larger than {MOST_FILE_BYTES // 1_000_000} MB"
    return ""


def _kind_problem(name: str, read: Callable[[], bytes]) -> str:
    if not name.isprintable():
        return "its name holds characters that cannot be shown"
    if PurePath(name).suffix.lower() not in READABLE and not _is_text(read()):
        return f"its type is not supported ({_READABLE_WORDS} are)"
    return ""


def _is_text(content: bytes) -> bool:
    """Whether a file is text in any encoding: hardly any of its first bytes are control characters."""
    head, has_nul = content[:4_000], b"\0" in content and not content.startswith(_WIDE_TEXT)
    return not has_nul and 100 * (len(head) - len(head.translate(None, _CONTROLS))) <= len(head)


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in name)
