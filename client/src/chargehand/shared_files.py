"""Files shared by clients and workers: documents uploaded by callers, and files created by agents."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

from chargehand.contracts import Artifact
from chargehand.download import download_artifacts, read_artifact, safe_name, unique_name
from chargehand.errors import DownloadRefused, UploadRefused
from chargehand.payloads.encryption import Encryption
from chargehand.upload import NamedContent, store_documents

Document = str | PathLike[str] | NamedContent
"""A file or folder by its path, a document by its name and bytes, or an address: `https://…`, or what an earlier
upload returned."""

_ADDRESSES: Final = ("https://", "artifact:", "file:/")
_NAME_THE_PLACE: Final = (
    "pass artifacts=… to Chargehand.connect() or set CHARGEHAND_ARTIFACTS to the directory, s3://BUCKET or gs://BUCKET "
    "of the workers."
)


@dataclass(frozen=True)
class SharedFiles:
    """The location of documents and files. Methods block and raise `UploadRefused` or `DownloadRefused`."""

    place: str | None = None
    """A directory, `s3://bucket/prefix` or `gs://bucket/prefix`; None if it is unknown."""
    encryption: Encryption | None = None

    def upload(self, documents: Iterable[Document]) -> tuple[str, ...]:
        """Upload documents and return all addresses; existing addresses are passed through."""
        given = tuple(documents)
        addresses = [each for each in given if isinstance(each, str) and each.startswith(_ADDRESSES)]
        local = [_local(at, each) for at, each in enumerate(given) if each not in addresses]
        if local and self.place is None:
            name = local[0][0] if isinstance(local[0], tuple) else local[0]
            raise UploadRefused(
                f"{name} cannot be uploaded, since it is unknown where the workers read: {_NAME_THE_PLACE}"
            )
        uploaded = store_documents(local, self.place, encryption=self.encryption) if self.place and local else ()
        return tuple(dict.fromkeys((*addresses, *uploaded)))

    def read(self, artifacts: Sequence[Artifact]) -> dict[str, bytes]:
        """Read files into memory under safe and unique names."""
        taken: set[str] = set()
        place = self._require_place() if artifacts else ""
        return {
            unique_name(safe_name(each.name), taken): read_artifact(each.uri, place, self.encryption)
            for each in dict.fromkeys(artifacts)
        }

    def download(self, artifacts: Sequence[Artifact], folder: Path) -> dict[str, Path]:
        """Write files into a folder; existing ones are kept."""
        place = self._require_place() if artifacts else ""
        paths: dict[str, Path] = {}
        for each in download_artifacts(artifacts, place, folder, encryption=self.encryption):
            if each.problem:
                raise DownloadRefused(f"{each.path}: {each.problem}")
            paths[each.path.name] = each.path
        return paths

    def _require_place(self) -> str:
        if self.place is None:
            raise DownloadRefused(f"It is unknown where the workers keep files: {_NAME_THE_PLACE}")
        return self.place


def _local(at: int, document: Document) -> Path | NamedContent:
    """Validate arguments also for callers without a type checker."""
    if isinstance(document, tuple):
        if [type(each) for each in document] == [str, bytes]:
            return document
    elif isinstance(document, str) and "://" in document:
        raise UploadRefused(f"documents[{at}]: {document} cannot be read; pass an https:// address, or name and bytes.")
    else:
        with suppress(TypeError):
            return Path(document)
    raise UploadRefused(f"documents[{at}]: pass a path, an https:// address, or a pair of name and bytes.")
