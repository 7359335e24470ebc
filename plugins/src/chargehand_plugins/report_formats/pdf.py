"""Pages as PDF, by WeasyPrint, which needs the system's Pango."""

import re
from importlib import import_module
from typing import Any, Final, cast
from unicodedata import bidirectional

from chargehand import ChargehandError
from chargehand_cli.rendering.page import report_style

_COLOUR: Final = re.compile(r"(?<=\s)--([\w-]+): (#\w+)")
_VARIABLE: Final = re.compile(r"var\(--([\w-]+)(?:, #\w+)?\)")
_MOST_PIXELS: Final = 10_000_000


_AUTO: Final = re.compile(r'dir="auto"(?=[^>]*>([^"]{0,500}))')
_TAG: Final = re.compile(r"<[^>]*>?")


class PangoMissing(ChargehandError):  # noqa: N818  # reads as a statement: `except PangoMissing`
    """Pango, which WeasyPrint needs for text, is not installed."""


def pdf(page: str, *_: object) -> bytes:
    """Print the page of a report or an unfinished session in its light colours.

    Raises:
        PangoMissing: WeasyPrint's system libraries are not installed.
    """
    try:
        weasyprint = cast("Any", import_module("weasyprint"))  # WeasyPrint has no types
        urls = cast("Any", import_module("weasyprint.urls"))
    except OSError as error:
        raise PangoMissing(
            "PDFs need the system's library Pango. Debian and Ubuntu: apt install libpangoft2-1.0-0; macOS: brew "
            "install pango. Or print the page from a browser: `--format html`."
        ) from error
    light = report_style().partition("@media")[0]
    colours = dict(_COLOUR.findall(light))
    # WeasyPrint supports neither variables in drawings nor automatic text direction.
    plain = _VARIABLE.sub(lambda match: colours.get(match[1], match[0]), page)
    plain = _AUTO.sub(lambda match: f'dir="{_direction(_TAG.sub("", match[1]))}"', plain)
    # Half a megabyte of PNG can expand to a gigabyte. Above twice this many pixels, only the picture's name appears.
    cast("Any", import_module("PIL.Image")).MAX_IMAGE_PIXELS = _MOST_PIXELS
    fetcher = urls.URLFetcher(allowed_protocols=["data"])
    return cast("bytes", weasyprint.HTML(string=plain, url_fetcher=fetcher).write_pdf(pdf_tags=True))


def _direction(text: str) -> str:
    kinds = (bidirectional(character) for character in text)
    strong = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"
