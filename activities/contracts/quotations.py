"""Comparison of quotations with the text of their source, regardless of typesetting."""

import re
import unicodedata
from typing import Final

PASSAGE_GAP: Final = "\n[…]\n"
"""Separates non-adjacent passages of one source."""
_HYPHEN: Final = re.compile(r"[-‐‑‒–—−\u00ad]\s*")
_MARKS: Final = str.maketrans(dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛′`´", "'"))


def as_compared(text: str) -> str:
    """Normalise typesetting for comparison, rejoining words divided at line or page ends."""
    joined = _HYPHEN.sub("", unicodedata.normalize("NFKC", text).translate(_MARKS))
    return " ".join(joined.split())
