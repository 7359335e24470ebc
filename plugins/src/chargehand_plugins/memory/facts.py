"""Facts of tenants, one file each, in the directory or bucket shared by workers and commands.

A file is named after the call that recorded the fact and is created once, however often the call is attempted. A
forgotten fact leaves an empty file, so that a late attempt cannot restore it.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from chargehand.bucket import Bucket, open_folder
from chargehand.contracts import Capability, Contract, left_out
from chargehand.errors import ChargehandError
from chargehand.payloads.at_rest import SealedFiles
from chargehand.payloads.encryption import Encryption

FOLDER: Final = "memory"
"""Folder within the artifacts' directory or bucket."""
LONGEST_TEXT: Final = 1_000
"""Maximum characters of a fact."""
LONGEST_SOURCE: Final = 300
"""Maximum characters of a source."""
MOST_FACTS: Final = 500
"""Maximum facts of a tenant."""
MOST_BYTES: Final = 250_000
"""Maximum total of a tenant's facts as JSON."""
_FORGOTTEN: Final = b""
_READS_AT_ONCE: Final = 16
ID_DIGITS: Final = 16
"""Digits of the recording call's idempotency key used as id."""


class MemoryRefusal(ChargehandError):  # noqa: N818  # its message is an answer
    """A fact cannot be recorded or changed; the message gives reason and remedy."""


class Fact(Contract):
    """A fact recorded by an agent, possibly edited by a person."""

    id: str
    text: str
    source: str
    """Its source, as named by the agent."""
    recorded_at: datetime
    session: str
    agent: str
    reads: tuple[Capability, ...] = ()
    """Kinds of text that its agent read or received, unaffected by confirmation."""
    supersedes: str = left_out("")
    """Id of the fact that it replaces."""
    confirmed_at: datetime | None = left_out(None)
    """When a person last confirmed or edited it."""

    @property
    def standing(self) -> int:
        """Rank its trust: a person, an agent without untrusted text, or any other."""
        return 2 if self.confirmed_at else int("reads_untrusted" not in self.reads)


def is_outranked(newer: Fact, older: Fact) -> bool:
    """Return whether a fact cannot replace another one because it has a lower standing."""
    return newer.standing < older.standing


def superseded(facts: Collection[Fact]) -> Mapping[str, str]:
    """Map each replaced fact to its newest replacement."""
    known = {fact.id: fact for fact in facts}
    return {
        newer.supersedes: newer.id
        for newer in sorted(facts, key=lambda fact: fact.recorded_at)
        if newer.supersedes in known and not is_outranked(newer, known[newer.supersedes])
    }


@dataclass(frozen=True)
class Memory:
    """The facts of all tenants. Methods block and raise `OSError` or `ChargehandError`."""

    place: Path | str
    """Directory, `s3://…` or `gs://…`."""
    encryption: Encryption | None = None

    def facts(self, tenant: str) -> list[Fact]:
        folder, files = self._open(tenant)
        keys = [f"{folder}/{name}" for name in self._bucket.names(folder)]
        with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
            stored = pool.map(files.read, keys)
            facts = [Fact.model_validate_json(content) for content in stored if content]
        return sorted(facts, key=lambda fact: (fact.recorded_at, fact.id), reverse=True)

    def record(self, tenant: str, fact: Fact) -> Fact:
        """Record a fact and return the stored one; a repeated call or a known fact adds nothing.

        Raises:
            MemoryRefusal: it was forgotten, supersedes an unknown fact, or the memory is full.
        """
        folder, files = self._open(tenant)
        key = f"{folder}/{fact.id}"
        if (content := files.read(key)) is None:
            facts = self.facts(tenant)
            outdated = superseded(facts)
            current = {each.text.casefold(): each for each in facts if each.id not in outdated}
            same = current.get(fact.text.casefold())
            if same and fact.supersedes in {"", same.id, *outdated}:
                return same
            _require_room(facts, fact)
            files.add(key, fact.model_dump_json().encode())
            content = files.read(key)
        if not content:
            raise MemoryRefusal("A person has had this fact forgotten. Do not record it again.")
        return Fact.model_validate_json(content)

    def confirm(self, tenant: str, name: str, at: datetime, text: str | None = None) -> Fact:
        """Confirm a fact on behalf of a person, or replace its text.

        Raises:
            MemoryRefusal: the fact does not exist, or the text is unsuitable.
        """
        folder, files = self._open(tenant)
        fact = self._require(tenant, name)
        text = fact.text if text is None else " ".join(text.split())
        if not 0 < len(text) <= LONGEST_TEXT:
            raise MemoryRefusal(f"A fact has 1 to {LONGEST_TEXT:,} characters; this one would have {len(text):,}.")
        confirmed = fact.model_copy(update={"text": text, "confirmed_at": at})
        files.put(f"{folder}/{fact.id}", confirmed.model_dump_json().encode())
        return confirmed

    def forget(self, tenant: str, name: str) -> None:
        """Delete a fact permanently.

        Raises:
            MemoryRefusal: the fact does not exist.
        """
        folder, files = self._open(tenant)
        files.put(f"{folder}/{self._require(tenant, name).id}", _FORGOTTEN)

    def _require(self, tenant: str, name: str) -> Fact:
        for fact in self.facts(tenant):
            if fact.id == name:
                return fact
        raise MemoryRefusal(
            f"Tenant '{tenant}' has no fact '{name}'; `chargehand memory list` shows those that it has."
        )

    def _open(self, tenant: str) -> tuple[str, SealedFiles]:
        """Return a tenant's folder and files; files sealed for one tenant cannot be opened as another's."""
        folder = hashlib.sha256(tenant.encode()).hexdigest()[:40]
        return folder, SealedFiles(self._bucket, self.encryption, f"{FOLDER}/{folder}")

    @cached_property
    def _bucket(self) -> Bucket:
        return open_folder(self.place, FOLDER)


def _require_room(facts: Sequence[Fact], fact: Fact) -> None:
    if fact.supersedes and all(each.id != fact.supersedes for each in facts):
        raise MemoryRefusal(
            "There is no fact of that ref to supersede; name one that `recall_facts` returned, or none."
        )
    size = sum(len(each.model_dump_json().encode()) for each in (*facts, fact))
    if len(facts) >= MOST_FACTS or size > MOST_BYTES:
        raise MemoryRefusal(
            f"The memory is full ({len(facts)} facts, {size:,} bytes; {MOST_FACTS} and {MOST_BYTES:,} at most), and "
            "nothing was recorded. Go on without, and say in your answer that a person has to forget some."
        )
