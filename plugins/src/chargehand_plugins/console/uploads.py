"""Uploaded documents: stored temporarily under safe names, then in the workers' location."""

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from chargehand.errors import UploadRefused
from chargehand.shared_files import safe_name, unique_name
from chargehand.upload import MOST_FILE_BYTES, store_documents
from chargehand_cli.rendering.text import size
from chargehand_plugins.console.backend import Backend
from chargehand_plugins.console.problems import invalid

MOST_FILES: Final = 200
_MOST_FIELDS: Final = 2_000
"""Enough for each row of the longest plan."""
_MOST_FIELD_BYTES: Final = 1_000_000
_MOST_SINGLE_FILES: Final = 50
"""Maximum single documents; more become one folder, since every turn lists the names of documents."""
_PIECE_BYTES: Final = 1 << 20


async def read_form(request: Request) -> FormData:
    """Read a form with files, large ones on disk; bounded in count here, in bytes by the guard."""
    if "x-www-form-urlencoded" in request.headers.get("content-type", ""):  # Starlette reads it byte by byte
        text = (await request.body()).decode("latin-1")
        try:
            fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError as error:
            raise invalid("form", [f"input: has more than {_MOST_FIELDS} fields"]) from error
        return FormData(dict(fields))
    try:
        return await request.form(max_files=MOST_FILES, max_fields=_MOST_FIELDS, max_part_size=_MOST_FIELD_BYTES)
    except (MultiPartException, HTTPException) as error:
        problem = error.message if isinstance(error, MultiPartException) else error.detail
        raise invalid("form", [f"input: {problem}"]) from error


def has_files(request: Request) -> bool:
    """Whether the form of a request may have files, which have to be chosen again if it is refused."""
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


def files_of(form: FormData, name: str) -> list[UploadFile]:
    """List the files of a field; browsers send an unnamed empty file for an empty field."""
    return [each for each in form.getlist(name) if isinstance(each, UploadFile) and each.filename]


async def store_uploads(files: Sequence[UploadFile], backend: Backend) -> tuple[str, ...]:
    """Store files and return their addresses as documents.

    Raises:
        UploadRefused: a file is empty or too large, or the workers' location is unknown.
    """
    if not files:
        return ()
    root = backend.require_artifacts()
    if large := [each.filename for each in files if (each.size or 0) > MOST_FILE_BYTES]:
        raise UploadRefused(f"{large[0]}: it is larger than {size(MOST_FILE_BYTES)}")
    with tempfile.TemporaryDirectory(prefix="chargehand-upload-") as temporary:
        folder = Path(temporary) / "documents"
        folder.mkdir()
        names: set[str] = set()
        paths = [await _write(each, folder / unique_name(safe_name(each.filename or ""), names)) for each in files]
        sources = paths if len(paths) <= _MOST_SINGLE_FILES else [folder]
        try:
            return await asyncio.to_thread(store_documents, sources, root, encryption=backend.encryption)
        except UploadRefused as error:  # without the temporary path on this server
            raise UploadRefused(str(error).replace(f"{folder}/", "")) from None


async def _write(file: UploadFile, path: Path) -> Path:
    with await asyncio.to_thread(path.open, "wb") as target:
        while piece := await file.read(_PIECE_BYTES):
            await asyncio.to_thread(target.write, piece)
    return path
