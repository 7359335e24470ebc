"""Reads pictures and re-encodes each, which gives the model its pixels and nothing else of the file."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from activities.documents.parsed import Block, Parsed, Part, PictureFile, Source, UnreadableError
from activities.processes.limits import Allowance

if TYPE_CHECKING:
    from PIL import Image

MOST_EDGE: Final = 1_568
"""Pixels of the longer edge; providers shrink larger pictures, and charge by the pixel."""
MOST_PIXELS: Final = 40_000_000
MOST_PICTURES: Final = 50
"""Maximum pictures of a document that also has text."""
_FORMATS: Final = ("PNG", "JPEG", "WEBP")
_MOST_LOSSLESS_BYTES: Final = 1 << 20


def has_pillow() -> bool:
    """Whether Pillow, an optional extra, is installed."""
    return find_spec("PIL") is not None


def require_pillow() -> None:
    """Raise `UnreadableError` if Pillow is not installed."""
    if not has_pillow():
        raise UnreadableError(
            "It is a picture, which a worker reads with the extra `pictures`: install that, or use text."
        )


def parse(source: Source, _: Allowance) -> Parsed:
    require_pillow()
    picture, text = read_picture(source.path, source.tables, 1)
    return Parsed("page", 1, [Block(text, 1, 1)], [Part(1, 1, text)], pictures=[picture])


def read_picture(file: "Path | BinaryIO", stem: Path, place: int, least: int = 1) -> tuple[PictureFile, str]:
    """Re-encode a picture and describe it.

    Raises:
        UnreadableError: it is not a picture, is too large, or its shorter edge has fewer than `least` pixels.
    """
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = MOST_PIXELS // 2  # Pillow refuses pictures of twice this size before reading them
    try:
        with Image.open(file, formats=_FORMATS) as image:
            if min(image.size) < least:
                raise UnreadableError("It is too small to show anything.")
            upright = ImageOps.exif_transpose(image)
            width, height = upright.size
            frames = f", the first of {count}" if (count := getattr(image, "n_frames", 1)) > 1 else ""
            picture = write_picture(upright, stem, place)
    except Image.DecompressionBombError as error:
        raise UnreadableError(f"It has more than {MOST_PIXELS // 10**6} million pixels: save it smaller.") from error
    except (Image.UnidentifiedImageError, OSError, SyntaxError) as error:
        raise UnreadableError("It is not a readable picture: the file is broken or of another format.") from error
    return picture, f"A picture of {width} × {height} pixels{frames}."


def write_picture(image: "Image.Image", stem: Path, page: int) -> PictureFile:
    """Write a picture without its metadata, at most `MOST_EDGE` pixels long: drawings as PNG, large files as JPEG."""
    from PIL import Image

    if image.mode.startswith("I"):  # 16 bits: a plain conversion would turn almost all values white
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    image.thumbnail((MOST_EDGE, MOST_EDGE))
    plain = Image.new("RGB", image.size, "white")
    plain.paste(image.convert("RGBA"), mask=image.convert("RGBA").getchannel("A"))
    path = Path(f"{stem}.picture-{page}")
    plain.save(path, "PNG")
    if path.stat().st_size > _MOST_LOSSLESS_BYTES:
        plain.save(path, "JPEG", quality=88)
    return PictureFile(page, str(path))
