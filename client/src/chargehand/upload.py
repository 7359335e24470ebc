"""Upload documents: copy files and folders to where the workers read them, a directory or a bucket.

`<root>/<first two hex digits>/<sha256>` holds a file's bytes. A folder is a manifest, an artifact like any
other: `{"format": "chargehand-manifest-1", "files": [{"name", "sha256", "bytes"}], "skipped": [{"name", "reason"}]}`.
"""

import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from chargehand.bucket import Bucket, BucketError, bucket_location, open_bucket
from chargehand.errors import ChargehandError
from chargehand.payloads.at_rest import is_kept, require_plain
from chargehand.payloads.encryption import Encryption
from chargehand.payloads.errors import ProtectionError

MANIFEST_FORMAT: Final = "chargehand-manifest-1"
MOST_FILES: Final = 2_000
MOST_BYTES: Final = 500_000_000
MOST_FILE_BYTES: Final = 50_000_000

_MOST_ENTRIES: Final = 100_000
_MOST_SKIPPED_LISTED: Final = 1_000
_CHUNK: Final = 1 << 20
_READABLE: Final = frozenset({".pdf", ".docx", ".xlsx", ".ods", ".csv", ".tsv", ".md", ".html", ".htm", ".txt", ".rst"})
_READABLE_WORDS: Final = "PDF, DOCX, XLSX, ODS, CSV, TSV, Markdown, HTML, reStructuredText and any UTF-8 text"
_LEFT_OUT_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})


class UploadRefused(ChargehandError):  # noqa: N818  # reads as a statement: `except UploadRefused`
    """The documents cannot be uploaded; the message names the file."""


@dataclass(frozen=True)
class _Skipped:
    name: str
    reason: str


@dataclass
class _Total:
    """What one upload has come to so far."""

    files: int = 0
    bytes: int = 0

    def add(self, path: Path, size: int) -> None:
        self.files += 1
        self.bytes += size
        if self.files > MOST_FILES:
            raise UploadRefused(f"More than {MOST_FILES:,} files, reached at {path}: name a smaller folder.")
        if self.bytes > MOST_BYTES:
            raise UploadRefused(f"More than {MOST_BYTES // 1_000_000} MB, reached at {path}: name a smaller folder.")


def store_documents(
    paths: Iterable[Path],
    artifact_root: Path | str,
    *,
    on_skip: Callable[[str, str], None] = lambda _name, _reason: None,
    encryption: Encryption | None = None,
) -> tuple[str, ...]:
    """Copy files and folders to where workers read them and return their URIs; what is there already is not copied.

    `artifact_root` is a directory, `s3://bucket/prefix` or `gs://bucket/prefix`. `on_skip` is told the name and the
    reason of each file of a folder that was left out. With `encryption` files lie there sealed, and workers need its
    keys.

    Raises:
        UploadRefused: a path is missing, empty or unreadable, or there is too much.
    """
    total = _Total()
    uris: dict[str, None] = {}
    store = _open_store(artifact_root, encryption)
    for path in paths:
        try:
            resolved = path.expanduser().resolve(strict=True)
            put = _store_folder if resolved.is_dir() else _store_single_file
            uris[put(resolved, store, total, on_skip)] = None
        except (BucketError, ProtectionError) as error:
            raise UploadRefused(f"{path} cannot be uploaded: {error}") from error
        except FileNotFoundError as error:
            raise UploadRefused(f"There is no file or folder {path}.") from error
        except (OSError, RuntimeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UploadRefused(f"{path} cannot be uploaded to {artifact_root}: {reason}.") from error
    return tuple(uris)


class _Store(Protocol):
    """Where documents are uploaded to."""

    @property
    def directory(self) -> Path | None:
        """Where it lies, if that is on this machine."""
        ...

    def holds(self, digest: str, size: int) -> bool: ...

    def write(self, chunks: Iterator[bytes]) -> tuple[str, int]:
        """Keep these bytes and return their digest and size."""
        ...


def _open_store(root: Path | str, encryption: Encryption | None) -> _Store:
    if location := bucket_location(root):
        try:
            return _BucketStore(open_bucket(location), encryption)
        except BucketError as error:
            raise UploadRefused(str(error)) from error
    return _DirectoryStore(Path(root), encryption)


def _store_single_file(path: Path, store: _Store, total: _Total, _on_skip: Callable[[str, str], None]) -> str:
    if problem := _problem(path, path.name):
        raise UploadRefused(f"{path} cannot be used: {problem}.")
    total.add(path, path.stat().st_size)
    digest, _ = _store(path, store)
    return f"artifact:{digest}/{quote(path.name)}"


def _store_folder(folder: Path, store: _Store, total: _Total, on_skip: Callable[[str, str], None]) -> str:
    files: list[dict[str, str | int]] = []
    skipped: list[_Skipped] = []
    for path in _files_below(folder, skipped, leave_out=store.directory):
        name = path.relative_to(folder).as_posix()
        if problem := _problem(path, name):
            skipped.append(_Skipped(_printable(name), problem))
            continue
        total.add(path, path.stat().st_size)
        digest, size = _store(path, store)
        files.append({"name": name, "sha256": digest, "bytes": size})
    for one in skipped:
        on_skip(one.name, one.reason)
    if not files:
        why = f"; {len(skipped)} left out, the first one because {skipped[0].reason}" if skipped else ""
        raise UploadRefused(f"The folder {folder} holds no document that can be read{why}.")
    manifest = {
        "format": MANIFEST_FORMAT,
        "files": sorted(files, key=lambda file: str(file["name"])),
        "skipped": [{"name": one.name, "reason": one.reason} for one in skipped[:_MOST_SKIPPED_LISTED]],
    }
    digest = _store_bytes(json.dumps(manifest, ensure_ascii=False, indent=1).encode(), store)
    return f"artifact:{digest}/{quote(_printable(folder.name) or 'documents', safe='')}/"


def _files_below(folder: Path, skipped: list[_Skipped], leave_out: Path | None) -> Iterator[Path]:
    """Walk a folder in a fixed order; hidden things are passed over silently, links that lead out of it are named."""
    entries = 0
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not _is_left_out(name) and here / name != leave_out)
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


def _is_left_out(name: str) -> bool:
    return name.startswith(".") or name in _LEFT_OUT_FOLDERS


def _problem(path: Path, name: str) -> str:
    """Say why a file cannot be used; empty if it can."""
    if not name.isprintable():
        return "its name holds characters that cannot be shown"
    if not path.is_file() or not os.access(path, os.R_OK):
        return "it is not a regular file" if not path.is_file() else "it may not be read"
    size = path.stat().st_size
    if size == 0 or size > MOST_FILE_BYTES:
        return "it is empty" if size == 0 else f"it is larger than {MOST_FILE_BYTES // 1_000_000} MB"
    if path.suffix.lower() not in _READABLE and not _is_text(path):
        return f"its type is not supported ({_READABLE_WORDS} are)"
    return ""


def _is_text(path: Path) -> bool:
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in content


def _store(path: Path, store: _Store) -> tuple[str, int]:
    """Store a file and return its digest and size; the digest is that of the bytes really stored."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as source:
        for chunk in iter(lambda: source.read(_CHUNK), b""):
            digest.update(chunk)
            size += len(chunk)
        if store.holds(digest.hexdigest(), size):
            return digest.hexdigest(), size
        source.seek(0)
        return store.write(iter(lambda: source.read(_CHUNK), b""))


def _store_bytes(content: bytes, store: _Store) -> str:
    digest = hashlib.sha256(content).hexdigest()
    if store.holds(digest, len(content)):
        return digest
    return store.write(iter((content,)))[0]


class _DirectoryStore:
    def __init__(self, root: Path, encryption: Encryption | None) -> None:
        self._root = root
        self._encryption = encryption

    @property
    def directory(self) -> Path:
        return self._root.resolve()

    def holds(self, digest: str, size: int) -> bool:
        place = self._root / digest[:2] / digest
        if not place.is_file():
            return False
        if self._encryption:
            return is_kept(self._encryption, digest, place.read_bytes())
        if place.stat().st_size == size:
            return True
        with place.open("rb") as file:
            require_plain(digest, file.read(16))
        return False

    def write(self, chunks: Iterator[bytes]) -> tuple[str, int]:
        if self._encryption:
            content = b"".join(chunks)
            digest = hashlib.sha256(content).hexdigest()
            self._write(iter((self._encryption.seal(content),)), digest)
            return digest, len(content)
        return self._write(chunks)

    def _write(self, chunks: Iterator[bytes], name: str = "") -> tuple[str, int]:
        """Write a file under its name, or else under its digest."""
        root = self._root
        root.mkdir(parents=True, exist_ok=True)
        draft = root / f".draft-{secrets.token_hex(8)}"
        digest = hashlib.sha256()
        size = 0
        try:
            with draft.open("xb") as file:
                for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            name = name or digest.hexdigest()
            place = root / name[:2] / name
            place.parent.mkdir(exist_ok=True)
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)
        return digest.hexdigest(), size


class _BucketStore:
    directory = None

    def __init__(self, bucket: Bucket, encryption: Encryption | None) -> None:
        self._bucket = bucket
        self._encryption = encryption

    def holds(self, digest: str, size: int) -> bool:
        there = self._bucket.size(digest)
        if there is None or (there == size and not self._encryption):
            return there is not None
        stored = io.BytesIO()
        self._bucket.fetch(digest, stored)
        if self._encryption:
            return is_kept(self._encryption, digest, stored.getvalue())
        require_plain(digest, stored.getvalue())
        return False

    def write(self, chunks: Iterator[bytes]) -> tuple[str, int]:
        # A file may change while it is read; what is sent is what was hashed. Files have 50 MB at most.
        content = b"".join(chunks)
        digest = hashlib.sha256(content).hexdigest()
        self._bucket.put(digest, self._encryption.seal(content) if self._encryption else content)
        return digest, len(content)


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "�" for character in name)
