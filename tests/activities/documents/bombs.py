"""Hostile files by the dozen: a table of bombs, which any suffix may carry."""

import gzip
import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from hostile_documents import (
    LAUGHTER,
    circular_pdf,
    flate_pdf,
    lying_zip,
    nested_zip,
    pdf_of,
    pixel_pdf,
    pixel_png,
    replaced,
    text_page,
    wide_workbook,
)
from made_documents import contract, ebook, open_document, open_text, prices, slides

from activities.documents.formats.registry import FORMATS

ELSEWHERE: Final = (".json", ".eml", ".ppt", ".svg", ".xml", ".py", ".rst", ".unknown", "")
"""Suffixes that are read as text, or not at all."""
SUFFIXES: Final = (*(suffix for known in FORMATS for suffix in known.suffixes), *ELSEWHERE)
_TAG: Final = "<a>"
_EXTERNAL: Final = (
    '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd"><!ENTITY % p SYSTEM "http://127.0.0.1:9/e"> %p;]>'
)
_QUADRATIC: Final = f'<!DOCTYPE x [<!ENTITY x "{"a" * 100_000}">]>'
_XML_PARTS: Final = {
    "docx": ("word/document.xml", "word/styles.xml", "[Content_Types].xml", "_rels/.rels"),
    "xlsx": ("xl/worksheets/sheet1.xml", "xl/workbook.xml", "xl/styles.xml", "xl/_rels/workbook.xml.rels"),
    "ods": ("content.xml", "META-INF/manifest.xml"),
    "pptx": ("ppt/presentation.xml", "ppt/slides/slide1.xml", "[Content_Types].xml"),
    "odt": ("content.xml",),
    "epub": ("META-INF/container.xml", "OEBPS/book.opf"),
}


_docx = cache(contract)
_xlsx = cache(prices)
PACKAGES: Final[dict[str, Callable[[], bytes]]] = {
    "docx": _docx,
    "xlsx": _xlsx,
    "ods": lambda: open_document("spreadsheet", ""),
    "pptx": slides,
    "odt": open_text,
    "epub": ebook,
}

XML: Final[dict[str, Callable[[], bytes]]] = {
    "laughs": f"{LAUGHTER}<x>&l9;</x>".encode,
    "quadratic": f"{_QUADRATIC}<x>{'&x;' * 20_000}</x>".encode,
    "external": f"{_EXTERNAL}<x>&x;</x>".encode,
    "deep": lambda: _TAG.encode() * 100_000 + b"x" + b"</a>" * 100_000,
    "attributes": lambda: b"<x " + b" ".join(b'a%d="1"' % at for at in range(100_000)) + b"/>",
    "namespaces": lambda: b"<x " + b" ".join(b'xmlns:n%d="u%d"' % (at, at) for at in range(20_000)) + b"/>",
    "a long name": lambda: b"<" + b"n" * (5 << 20) + b"/>",
    "a long comment": lambda: b"<x><!--" + b"- " * (3 << 20) + b"--></x>",
    "unclosed": lambda: b"<x" * 6_000,
    "another encoding": '<?xml version="1.0" encoding="utf-7"?><x>+ADw-</x>'.encode,
}


def _members(names: list[str], content: bytes = b"x") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            member = zipfile.ZipInfo(name)
            if name.startswith("link"):
                member.external_attr = 0o120777 << 16
            archive.writestr(member, content)
    return file.getvalue()


def _overlapping() -> bytes:
    """Write a directory of 1,000 members that share one packed stream of 1 MB of zeros."""
    made = _members(["a"], zlib.compress(bytes(1 << 20)))
    end = made.rindex(b"PK\5\6")
    start = made.index(b"PK\1\2")
    entry, count = made[start:end], 1_000
    tail = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entry) * count, start, 0)
    return made[:start] + entry * count + tail


def _many_pages(count: int) -> bytes:
    return pdf_of(b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] >>", kids=[3] * count)


def _pdf_stream(content: bytes, more: bytes = b"") -> bytes:
    return pdf_of(text_page(4), b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(content), more, content))


PDF: Final[dict[str, Callable[[], bytes]]] = {
    "a tree of itself": circular_pdf,
    "100,000 pages": lambda: _many_pages(100_000),
    "a huge image": pixel_pdf,
    "nested arrays": lambda: pdf_of(b"[" * 100_000 + b"]" * 100_000),
    "nested dictionaries": lambda: pdf_of(b"<</A" * 50_000 + b"1" + b">>" * 50_000),
    "JavaScript": lambda: pdf_of(
        text_page(4),
        b"<< /Length 0 >>\nstream\n\nendstream",
        b"<< /S /JavaScript /JS (while(1){app.alert(this.path)}) >>",
    ).replace(b"/Type /Catalog", b"/Type /Catalog /OpenAction 5 0 R"),
    "a table of itself": lambda: circular_pdf().replace(b"trailer <<", b"trailer << /Prev 9"),
    "a length beyond the end": lambda: _pdf_stream(b"BT ET").replace(b"/Length 5", b"/Length 2147483647"),
    "a negative length": lambda: _pdf_stream(b"BT ET").replace(b"/Length 5", b"/Length -9"),
    "a form of itself": lambda: pdf_of(
        text_page(4).replace(b"/Font <<", b"/XObject << /X 5 0 R >> /Font <<"),
        b"<< /Length 5 >>\nstream\n/X Do\nendstream",
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >> /Length 11 >>\n"
        b"stream\n/X Do /X Do\nendstream",
    ),
    "a wide predictor": lambda: _pdf_stream(
        zlib.compress(bytes(1 << 20)),
        b"/Filter /FlateDecode /DecodeParms << /Predictor 15 /Columns 2147483647 /Colors 32 >>",
    ),
    "a filter a thousand times": lambda: _pdf_stream(b"00>", b"/Filter [%s]" % (b"/ASCIIHexDecode " * 1_000)),
    "saved states": lambda: _pdf_stream(b"q " * 1_000_000),
    "a long text": lambda: _pdf_stream(b"BT /F1 1 Tf (" + b"a" * (8 << 20) + b") Tj ET"),
    "only a header": lambda: b"%PDF-1.7\n%%EOF",
    "packed again and again": cache(lambda: flate_pdf(400)),
}
TEXT: Final[dict[str, Callable[[], bytes]]] = {
    "nothing": lambda: b"",
    "zeros": lambda: bytes(1 << 20),
    "nested brackets": lambda: b"[" * 2_000_000,
    "nested braces": lambda: b'{"a":' * 400_000,
    "nested quotes": lambda: b"> " * 500_000 + b"a",
    "nested emphasis": lambda: b"*a_" * 300_000,
    "nested links": lambda: b"[![" * 300_000,
    "nested lists": lambda: b"".join(b" " * (at % 2_000) + b"- a\n" for at in range(4_000)),
    "nested tags": lambda: b"<div>" * 200_000,
    "nested tables": lambda: b"<table><tr><td>" * 50_000,
    "open quotes": lambda: b'a,"' * 500_000,
    "columns": lambda: b",".join(b"c%d" % at for at in range(50_000)) + b"\n1\n",
    "a long line": lambda: b"a,b\n" + b"x" * (5 << 20),
    "many lines": lambda: b"a,b\n" * 300_000,
    "line ends of every kind": lambda: "a\r\u2028b\u0085c\x0bd\x0ce\n".encode() * 20_000,
    "half a surrogate": lambda: b"\xff\xfe" + b"\x00\xd8" * 100_000,
    "an odd byte": lambda: b"\xff\xfea",
    "combined letters": ("Z" + "\u0301" * 100_000).encode,
    "directions": lambda: "\u202e\u2066a\n".encode() * 50_000,
    "nested MIME": lambda: b"".join(
        b"Content-Type: multipart/mixed; boundary=%d\n\n--%d\n" % (at, at) for at in range(20_000)
    ),
    "underlines": lambda: b"a\n=\n" * 200_000,
    "fences": lambda: b"```\n" * 200_001,
    "dashes": lambda: b"a-" * 500_000,
    "entities": lambda: b"&#x10FFFF;&lt;&amp" * 100_000,
    "sentences": lambda: b". " * 1_000_000 + b"a",
}
ZIP: Final[dict[str, Callable[[], bytes]]] = {
    "archives in archives": lambda: nested_zip(3, 4),
    "a lying directory": cache(lying_zip),
    "one stream a thousand times": _overlapping,
    "names that lead out": lambda: _members(
        ["../../../../tmp/out", "/etc/cron.d/out", "..\\..\\out", "C:\\out", "word/../../out"]
    ),
    "links": lambda: _members(["link", "link/word/document.xml", "linkage"], b"/etc"),
    "control characters": lambda: _members(["a\x1b[2J", "b\r\nc", "d\u202e", "e\x7f", " ", "\u0000f"]),
    "the same name twice": lambda: _docx() + _xlsx(),
    "20,000 members": lambda: _members([str(at) for at in range(20_000)]),
    "a password": lambda: _docx().replace(b"PK\1\2\x14\x03\x14\x00\x00\x00", b"PK\1\2\x14\x03\x14\x00\x01\x00"),
    "a broken directory": lambda: _docx()[:-22] + _docx()[-22:].replace(b"PK\5\6", b"PK\5\6\xff\xff", 1)[:22],
    "half of it": lambda: _docx()[: len(_docx()) // 2],
    "a wide workbook": cache(lambda: wide_workbook(6_000, 40)),
}
POLYGLOTS: Final[dict[str, Callable[[], bytes]]] = {
    "a PDF that is a DOCX": lambda: _many_pages(2) + _docx(),
    "a DOCX in HTML": lambda: b"<html><!--" + _docx(),
    "a script that is a PDF": lambda: b"#!/bin/sh\n%PDF-1.4\n" + _many_pages(2),
    "an image of 10^10 pixels": lambda: pixel_png(100_000),
    "a GIF that is HTML": lambda: b"GIF89a/*<html><script>*/=1" * 1_000,
    "gzip of zeros": lambda: gzip.compress(bytes(16 << 20), 1),
    "an old workbook of noise": lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(range(256)) * 400,
    "an old workbook whose chain is a circle": lambda: (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        + bytes(16)
        + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
        + bytes(10)
        + struct.pack("<8I", 1, 0, 0, 4096, 0, 1, 0, 1)
        + bytes(440)
        + struct.pack("<128I", *[0] * 128) * 8
    ),
}


def _packages() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    for package, parts in _XML_PARTS.items():
        for part in parts:
            for bomb, make in XML.items():
                yield (
                    f"{package}: {bomb} in {part}",
                    f".{package}",
                    lambda package=package, part=part, make=make: replaced(PACKAGES[package](), part, make()),
                )


_KINDS: Final = (
    (PDF, (".pdf",)),
    (ZIP, (".docx", ".xlsx", ".xlsb", ".ods", ".pptx", ".odt", ".epub")),
    (TEXT, (".rtf", ".md", ".html", ".csv", ".txt", ".json")),
    (XML, (".html", ".xml")),
    (POLYGLOTS, (".pdf", ".docx", ".xls", ".html")),
)
BOMBS: Final = [
    *((bomb, suffix, make) for bombs, _ in _KINDS for bomb, make in bombs.items() for suffix in SUFFIXES),
    *((bomb, suffix, make) for bomb, home, make in _packages() for suffix in {home, ".xlsm", ".xls", ".ods", ".pdf"}),
]
"""Each bomb under every suffix: its name, the suffix, and what makes it."""
SAMPLE: Final = [
    *[
        (bomb, suffixes[at % len(suffixes)], make)
        for bombs, suffixes in _KINDS
        for at, (bomb, make) in enumerate(bombs.items())
        if bomb not in {"a lying directory", "packed again and again", "a wide workbook", "sentences"}
    ][::4],
    *list(_packages())[::31],
]
"""A sample of the bombs, each under one of its usual suffixes."""
