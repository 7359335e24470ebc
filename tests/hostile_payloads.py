"""Payloads that anyone could send to a workflow: encodings, metadata and JSON of many sizes and shapes."""

import json
import random
from collections.abc import Sequence
from itertools import product
from typing import Final

from hypothesis import settings
from temporalio.api.common.v1 import Payload

from chargehand.payloads.encryption import Encryption

_REFERENCE: Final = b"temporal.api.sdk.v1.ExternalStorageReference"
_MARKER: Final = "__temporal_external_storage_reference"
GOOD: Final = b'{"goal": "What is known?"}'
KEYS: Final = {"one": bytes(32)}
"""Keys of the attacked workers."""
ENCODINGS: Final = (
    None, b"", b"json/plain", b"json/protobuf", b"json/external-storage-reference", b"binary/plain",
    b"binary/null", b"binary/protobuf", b"binary/encrypted", b"chargehand/unreadable", b"\xff\xfe\x00",
    b"x" * 10_000,
)  # fmt: skip
METADATA: Final[tuple[dict[str, bytes], ...]] = (
    {},
    {"messageType": _REFERENCE},
    {"messageType": b"temporal.api.common.v1.Payload"},
    {"messageType": b"no.such.Type"},
    {_MARKER: b"true"},
    {_MARKER: b"true", "messageType": _REFERENCE},
    {"encryption-key-id": b"one"},
    {f"key-{number}": b"x" for number in range(500)},
)


def _claim(driver: str, **claim: object) -> bytes:
    return json.dumps({"driverName": driver, "claimData": claim}).encode()


CONTENTS: Final = (
    b"",
    b"\xff\x00\xfe",
    GOOD,
    _claim("chargehand.directory", sha256="ab" * 32),
    _claim("chargehand.directory", sha256="../../etc/passwd"),
    _claim("chargehand.directory"),
    _claim("nobody.knows", sha256="ab" * 32),
    b'{"driver_name": "x", "driver_claim": {"claim_data": {}}}',
    b"chargehand\x01" + bytes(100),
    Encryption({"two": bytes(range(32))}, "two").seal(GOOD),
    Encryption(KEYS, "one").seal(GOOD),  # encrypted for a purpose other than payloads
)


def _nested(depth: int, size: int, opening: bytes, closing: bytes) -> bytes:
    shell = b'{"goal": ' + opening * depth + b"1" + closing * depth + b', "crew": "%s"}'
    return shell % (b"x" * max(0, size - len(shell)))


LARGE: Final = (
    *(
        _nested(depth, size, *brackets)
        for depth in (63, 66, 960, 5_000)
        for size in (0, 900_000, 1_900_000)
        for brackets in ((b"[", b"]"), (b'{"a":', b"}"))
    ),
    json.dumps({"goal": "a goal", "documents": ["file:/a"] * 100_000}).encode(),
    json.dumps({"goal": "a goal", "documents": [1] * 19_000}).encode(),
    json.dumps({"goal": "a goal", "subtask": {}, "documents": [1] * 49_000, "inputs": [{}] * 900}).encode(),
    b'{"goal": "' + b'\\"' * 900_000 + b'"}',
    b'{"goal": "' + b"\\ud83d\\ude00" * 20_000 + b'"}',
    b'{"goal": "' + b"\\ud83d" * 100_000 + b'"}',
    b'{"goal": "' + b'\\"' * 500_000,
    b'{"goal": 1' + b"0" * 100_000 + b"}",
    b'{"goal": 1.' + b"0" * 100_000 + b"e-9999999}",
    b'{"goal": "a goal", "limits": {"budget_usd": -0.' + b"9" * 100_000 + b"}}",
    b"{" + b'"a":1,' * 300_000 + b'"a":1}',
    b"{" + b",".join(b'"k%d":NaN' % number for number in range(15_000)) + b"}",
    b"[" + b"{}," * 600_000 + b"1]",
    b"[" * 1_900_000,
    b'"' * 1_900_000,
    b" " * 1_900_000,
    b"\xef\xbb\xbf" + GOOD,
)
SMALL: Final = tuple(each for each in LARGE if len(each) < 30_000)


def payloads(contents: Sequence[bytes], most: int) -> list[Payload]:
    """Generate payloads: all of them at night, otherwise a sample."""
    everything = [
        Payload(metadata=metadata if encoding is None else {"encoding": encoding, **metadata}, data=data)
        for encoding, metadata, data in product(ENCODINGS, METADATA, CONTENTS)
        if not (metadata == {} and encoding == b"json/plain" and data == GOOD)
    ]
    large = [Payload(metadata={"encoding": b"json/plain"}, data=data) for data in contents]
    if settings.get_current_profile_name() == "nightly":
        return [*everything, *large]
    chosen = random.Random(20261122)
    return [*chosen.sample(everything, most), *chosen.sample(large, min(most, len(large)))]
