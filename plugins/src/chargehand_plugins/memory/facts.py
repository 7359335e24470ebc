"""Facts of tenants, in the directory or bucket that workers and commands share: a file each.

A file is named by the call that recorded the fact, and is created once: no attempt at the call records it again. A fact
that is forgotten leaves an empty file, so that no late attempt brings it back.
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
"""In the place of the artifacts."""
LONGEST_TEXT: Final = 1_000
"""Characters of a fact."""
LONGEST_SOURCE: Final = 300
"""Characters of what names its source."""
MOST_FACTS: Final = 500
"""Of a tenant."""
MOST_BYTES: Final = 250_000
"""Of a tenant's facts together, as JSON."""
_FORGOTTEN: Final = b""
_READS_AT_ONCE: Final = 16
ID_DIGITS: Final = 16
"""Of the idempotency key of the call that records a fact."""


class MemoryRefusal(ChargehandError):  # noqa: N818  # its message is an answer
    """A fact cannot be recorded or changed; the message says why, and what to do."""


class Fact(Contract):
    """What an agent has recorded, or a person has made of it."""

    id: str
    text: str
    source: str
    """What it rests on, as the agent named it."""
    recorded_at: datetime
    session: str
    agent: str
    reads: tuple[Capability, ...] = ()
    """What kinds of text its agent read or was given; no confirmation takes any of it away."""
    supersedes: str = left_out("")
    """Id of the fact that it takes the place of."""
    confirmed_at: datetime | None = left_out(None)
    """When a person confirmed or edited it last."""

    @property
    def standing(self) -> int:
        """Rank what speaks for it: a person, an agent that read nothing of strangers, or any other."""
        return 2 if self.confirmed_at else int("reads_untrusted" not in self.reads)


def is_outranked(newer: Fact, older: Fact) -> bool:
    """Whether a fact cannot take the place of another one: none yields to what has a lower standing."""
    return newer.standing < older.standing


def superseded(facts: Collection[Fact]) -> Mapping[str, str]:
    """Map each fact that another one has taken the place of to the newest such one."""
    known = {fact.id: fact for fact in facts}
    return {
        newer.supersedes: newer.id
        for newer in sorted(facts, key=lambda fact: fact.recorded_at)
        if newer.supersedes in known and not is_outranked(newer, known[newer.supersedes])
    }


@dataclass(frozen=True)
class Memory:
    """The facts of all tenants. Its methods block, and raise `OSError` or `ChargehandError`."""

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
        """Record a fact, and return it as it is kept: a call that is made again, or says what is known, adds nothing.

        Raises:
            MemoryRefusal: it was forgotten, names no fact that it supersedes, or the memory is full.
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
        """Note that a person has confirmed a fact, or replace its text by theirs.

        Raises:
            MemoryRefusal: there is no such fact, or the text has no place in it.
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
        """Delete a fact for good.

        Raises:
            MemoryRefusal: there is no such fact.
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
        """Return the folder of a tenant, and its files: what is sealed for one tenant cannot be opened as another's."""
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
