"""The settings for storing and reading documents, and the objects that a worker builds from them."""

import tempfile
from pathlib import Path

from pydantic import DirectoryPath, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from activities.backends import Host, SettingsError
from activities.documents.artifacts import Artifacts, ArtifactStore, open_artifacts
from activities.documents.downloads import Downloads
from activities.documents.library import DocumentLibrary
from chargehand.errors import BucketError
from chargehand.payloads.encryption import Encryption
from chargehand.record import Record

_APPLICATION = Path(__file__).resolve().parents[2]


class DocumentSettings(BaseSettings):
    """The settings of documents and web pages."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    state_dir: Path = _APPLICATION / ".chargehand"
    """Where this host keeps documents, indexes and artifacts."""
    artifacts: Path | str | None = None
    """Where uploaded documents are stored, if not below the state directory: a folder that clients and workers share,
    `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`."""
    index_days: int = Field(default=30, ge=1, le=3_650)
    """How long unused indexes, and copies of files from a bucket, are kept."""
    document_roots: tuple[DirectoryPath, ...] = ()
    """Folders of this host that requests may name as `file:` documents, as a JSON list."""
    page_hosts: frozenset[Host] = frozenset()
    """Internal hosts, `name:port` or `name` for ports 80 and 443, whose pages agents may read, as a JSON list."""


CACHES = ("indexes", "fetched-artifacts", "downloads", "conversations")
"""Folders of the state directory whose unused files are removed after `index_days`."""


def require_writable(state_dir: Path) -> None:
    """Create the state directory, accessible to this user only, unless it exists. Raises `SettingsError`."""
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=state_dir):
            pass
    except OSError as error:
        raise SettingsError(
            f"CHARGEHAND_STATE_DIR: nothing can be written to {state_dir}: {error.strerror}. Name a folder that this "
            "worker's user may write to."
        ) from error


def artifact_store(settings: DocumentSettings, encryption: Encryption | None) -> Artifacts:
    """Open the store of uploaded documents and tool outputs: a directory or a bucket."""
    location = settings.artifacts or settings.state_dir / "artifacts"
    try:
        return open_artifacts(location, settings.state_dir / "fetched-artifacts", encryption)
    except BucketError as error:
        raise SettingsError(f"CHARGEHAND_ARTIFACTS: {error}") from error


def lasting_store(settings: DocumentSettings, name: str, store: Artifacts, encryption: Encryption | None) -> Artifacts:
    """Return the store shared by all workers or, without one, this host's own in a folder of the state directory."""
    return store if settings.artifacts else ArtifactStore(settings.state_dir / name, encryption)


def effect_record(settings: DocumentSettings, encryption: Encryption | None) -> Record:
    """Open the record of what sessions do and pay, in the shared artifact store or else the state directory."""
    try:
        return Record(settings.artifacts or settings.state_dir, encryption)
    except BucketError as error:
        raise SettingsError(f"CHARGEHAND_ARTIFACTS: {error}") from error


def document_library(settings: DocumentSettings, store: Artifacts) -> DocumentLibrary:
    """Build a worker's document library."""
    downloads = Downloads(store, settings.state_dir / "downloads", settings.page_hosts)
    return DocumentLibrary(store, settings.state_dir / "indexes", settings.document_roots, downloads)
