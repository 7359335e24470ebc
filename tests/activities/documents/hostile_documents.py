"""Files made to break their readers: small to send, ruinous to unpack."""

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence

import docx
import openpyxl

_WORKSHEET = "xl/worksheets/sheet1.xml"
_LAUGHS = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, 10))
LAUGHTER = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{_LAUGHS}]>'
"""A billion laughs, if entities are expanded."""


def outsider(path: str) -> str:
    """An XML prologue whose entity `x` is a file of the machine."""
    return f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY x SYSTEM "file://{path}">]>'


def nested_zip(depth: int = 5, width: int = 8) -> bytes:
    """Nested archives in the manner of 42.zip: each level is small, all of them together are not."""
    content = bytes(1 << 20)
    for _ in range(depth):
        content = zipped({f"word/{number}.zip": content for number in range(width)})
    return content


def lying_zip() -> bytes:
    """A workbook whose directory says that a sheet of 300 MB has 1,000 bytes."""
    made = workbook_of(b"<worksheet><sheetData><row><c t='inlineStr'><is><t>", *[b"a" * (1 << 20)] * 300)
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        true = archive.getinfo(_WORKSHEET)
    sizes = struct.pack("<III", true.CRC, true.compress_size, true.file_size)
    return made.replace(sizes, struct.pack("<III", 0, true.compress_size, 1_000))


def workbook(prologue: str, cell: str) -> bytes:
    """A workbook whose only cell is this piece of XML."""
    sheet = (
        f'{prologue}<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
        f'<row r="1"><c r="A1" t="inlineStr"><is><t>{cell}</t></is></c><c r="B1" t="inlineStr"><is><t>b</t></is></c>'
        "</row></sheetData></worksheet>"
    )
    return workbook_of(sheet.encode())


def wide_workbook(rows: int, columns: int) -> bytes:
    """A workbook of repetitive rows: tiny to send, a hundred megabytes in memory."""
    cells = "".join("<c t='inlineStr'><is><t>" + "x" * 90 + "</t></is></c>" for _ in range(columns))
    sheet = "<worksheet><sheetData>" + f"<row>{cells}</row>" * rows + "</sheetData></worksheet>"
    return workbook_of(sheet.encode())


def figures(rows: int, columns: int) -> bytes:
    """An ordinary workbook, for comparison: a header and rows of figures that are all different."""
    header = "".join(f"<c t='inlineStr'><is><t>column {column}</t></is></c>" for column in range(columns))
    body = "".join(
        "<row>" + "".join(f"<c><v>{row * 7_919 + column}</v></c>" for column in range(columns)) + "</row>"
        for row in range(rows - 1)
    )
    sheet = f"<worksheet><sheetData><row>{header}</row>{body}</sheetData></worksheet>"
    return workbook_of(sheet.encode())


def letter(prologue: str, paragraph: str) -> bytes:
    """A DOCX whose only paragraph is this piece of XML."""
    file = io.BytesIO()
    docx.Document().save(file)
    text = (
        f'{prologue}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p>'
        f"<w:r><w:t>{paragraph}</w:t></w:r></w:p></w:body></w:document>"
    )
    return replaced(file.getvalue(), "word/document.xml", text.encode())


def flate_pdf(megabytes: int, layers: int = 2) -> bytes:
    """A page whose text is compressed repeatedly."""
    content = _flated(_START, _SHOWN * 27_000, megabytes)
    for _ in range(layers - 1):
        content = zlib.compress(content, 9)
    filters = b" ".join([b"/FlateDecode"] * layers)
    return pdf_of(
        text_page(4), b"<< /Length %d /Filter [%s] >>\nstream\n%s\nendstream" % (len(content), filters, content)
    )


def slow_pages_pdf(easy: int, slow: int, megabytes: int, ballast: int = 12 << 20) -> bytes:
    """Pages of a few words, then pages of long filler, in a needlessly large file."""
    kinds = [text_page(3)] * easy + [text_page(4)] * slow
    words, nothing = _flated(_START + _SHOWN * 10, b"", 0), _flated(_START + _SHOWN, b"[3 2] 0 d " * 100_000, megabytes)
    streams = [
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(each), each)
        for each in (words, nothing, bytes(ballast))
    ]
    first = 3 + len(streams)
    return pdf_of(*streams, *kinds, kids=range(first, first + len(kinds)))


_START = b"BT /F1 12 Tf 10 10 Td "
_SHOWN = b"(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj "


def text_page(content: int) -> bytes:
    return (
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << /Font << /F1 << /Type"
        b" /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>" % content
    )


def _flated(start: bytes, block: bytes, times: int) -> bytes:
    checksum = zlib.adler32(start)
    for _ in range(times):
        checksum = zlib.adler32(block, checksum)
    return b"\x78\xda" + _packed(start, block, times) + struct.pack(">I", checksum)


def _packed(start: bytes, block: bytes, times: int) -> bytes:
    """Compress a start and then many copies of a block, compressing the block only once."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = packing.compress(start) + packing.flush(zlib.Z_FULL_FLUSH)
    # After a full flush, nothing refers to earlier data: the same words compress to the same bytes.
    once = packing.compress(block) + packing.flush(zlib.Z_FULL_FLUSH)
    return first + once * times + packing.flush()


def pixel_pdf(side: int = 60_000) -> bytes:
    """A page with an image that has 3.6 billion pixels, in a few bytes."""
    packed = zlib.compress(bytes(1 << 20), 9)
    return pdf_of(
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R /Resources << /XObject << /I 4 0 R >>"
        b" >> >>",
        b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8"
        b" /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (side, side, len(packed), packed),
        b"<< /Length 27 >>\nstream\nq 600 0 0 700 0 0 cm /I Do\nendstream",
    )


def pixel_png(side: int = 60_000) -> bytes:
    """A picture with 3.6 billion pixels, in a few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1 << 20), 9))


def circular_pdf() -> bytes:
    """A page tree that contains itself."""
    return pdf_of(b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 1000000000 /Parent 3 0 R >>")


def pdf_of(*objects: bytes, kids: Sequence[int] = (3,)) -> bytes:
    """Write a PDF of objects numbered from 3, some of which are pages."""
    pages = b" ".join(b"%d 0 R" % kid for kid in kids)
    tree = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (pages, len(kids))
    everything = (b"<< /Type /Catalog /Pages 2 0 R >>", tree, *objects)
    file = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, body in enumerate(everything, 1):
        offsets.append(len(file))
        file += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count, start = len(everything) + 1, len(file)
    file += b"xref\n0 %d\n0000000000 65535 f \n%s" % (count, table)
    file += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (count, start)
    return bytes(file)


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def workbook_of(*sheet: bytes) -> bytes:
    """A workbook whose only sheet is these pieces."""
    file = io.BytesIO()
    openpyxl.Workbook().save(file)
    return replaced(file.getvalue(), _WORKSHEET, *sheet)


def replaced(document: bytes, part: str, *content: bytes) -> bytes:
    file = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(document)) as before,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as after,
    ):
        for name in set(before.namelist()) - {part}:
            after.writestr(name, before.read(name))
        with after.open(part, "w") as member:
            for piece in content:
                member.write(piece)
    return file.getvalue()
