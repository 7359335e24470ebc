"""How far a document that is a ZIP archive may unpack."""

from pathlib import Path
from typing import Final

from activities.documents.parsed import UnreadableError

_MOST_MEMBERS: Final = 10_000
_MOST_UNPACKED_BYTES: Final = 400 << 20
_MOST_UNPACKED_RATIO: Final = 200
_RATIO_MATTERS_ABOVE_BYTES: Final = 20 << 20


def check_zip(path: Path) -> None:
    """Refuse an archive by the sizes that its directory states, before anything is unpacked."""
    import zipfile

    if not zipfile.is_zipfile(path):
        return  # the parser reports it
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    unpacked = sum(member.file_size for member in members)
    packed = max(1, sum(member.compress_size for member in members))
    too_dense = unpacked > _RATIO_MATTERS_ABOVE_BYTES and unpacked / packed > _MOST_UNPACKED_RATIO
    if len(members) > _MOST_MEMBERS or unpacked > _MOST_UNPACKED_BYTES or too_dense:
        raise UnreadableError(
            f"It unpacks to {unpacked >> 20} MB in {len(members)} parts, more than a document may: split it."
        )
