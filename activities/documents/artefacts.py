"""Keep uploaded bytes under their own SHA-256: one directory that clients write to and workers read from."""

import hashlib
import os
import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, Protocol

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES: Final = 1 << 20


class ArtefactError(Exception):
    """An artefact cannot be used."""


class ArtefactMissingError(ArtefactError):
    """Nothing is stored under this digest."""


class ArtefactDamagedError(ArtefactError):
    """What is stored under this digest is something else."""


class Artefacts(Protocol):
    """Bytes under their own SHA-256, wherever they are kept. Its methods block."""

    def put(self, content: bytes) -> str:
        """Store bytes and return their digest; storing the same bytes again changes nothing."""
        ...

    def put_file(self, path: Path) -> str:
        """Store a file's bytes and return their digest."""
        ...

    def has(self, digest: str) -> bool:
        """Tell whether something is stored under this digest, without checking what."""
        ...

    def size(self, digest: str) -> int:
        """Bytes stored under this digest. Raises `ArtefactError`."""
        ...

    def open(self, digest: str) -> Path:
        """Return the path of the verified content on this machine. Raises `ArtefactError`."""
        ...

    def read(self, digest: str) -> bytes:
        """Return the verified content. Raises `ArtefactError`."""
        ...


class ArtefactStore:
    """A directory of files named by their content: `<root>/<first two hex digits>/<sha256>`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def put(self, content: bytes) -> str:
        """Store bytes and return their digest; storing the same bytes again changes nothing."""
        return self._put(hashlib.sha256(content).hexdigest(), len(content), lambda file: file.write(content))

    def put_file(self, path: Path) -> str:
        """Store a file's bytes, which nobody changes meanwhile, and return their digest."""
        found = hashlib.sha256()
        for chunk in _chunks(path):
            found.update(chunk)

        def fill(file: BinaryIO) -> None:
            for chunk in _chunks(path):
                file.write(chunk)

        return self._put(found.hexdigest(), path.stat().st_size, fill)

    def _put(self, digest: str, size: int, fill: Callable[[BinaryIO], object]) -> str:
        path = self._path(digest)
        if path.is_file() and path.stat().st_size == size:
            return digest
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{digest}.{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as file:
                fill(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return digest

    def has(self, digest: str) -> bool:
        """Tell whether something is stored under this digest, without checking what."""
        return self._path(digest).is_file()

    def size(self, digest: str) -> int:
        """Bytes stored under this digest. Raises `ArtefactMissingError`."""
        try:
            return self._path(digest).stat().st_size
        except OSError as error:
            raise _missing(digest) from error

    def open(self, digest: str) -> Path:
        """Return the path of the verified content. Raises `ArtefactMissingError` or `ArtefactDamagedError`."""
        path = self._path(digest)
        found = hashlib.sha256()
        try:
            for chunk in _chunks(path):
                found.update(chunk)
        except OSError as error:
            raise _missing(digest) from error
        _verify(digest, found.hexdigest())
        return path

    def read(self, digest: str) -> bytes:
        """Return the verified content. Raises `ArtefactMissingError` or `ArtefactDamagedError`."""
        try:
            content = self._path(digest).read_bytes()
        except OSError as error:
            raise _missing(digest) from error
        _verify(digest, hashlib.sha256(content).hexdigest())
        return content

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ArtefactMissingError("a digest is 64 hexadecimal digits in lower case")
        return self._root / digest[:2] / digest


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _missing(digest: str) -> ArtefactMissingError:
    return ArtefactMissingError(
        f"nothing is stored under {digest}: upload it again, to where this worker reads artefacts"
    )


def _verify(expected: str, found: str) -> None:
    if found != expected:
        raise ArtefactDamagedError(f"what is stored under {expected} is damaged: delete that file and upload it again")
