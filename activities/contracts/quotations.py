"""How the words of a quotation are compared with those of its source."""

import re
import unicodedata
from typing import Final

_HYPHEN: Final = re.compile(r"[-‐‑‒–—−\u00ad]\s*")
_MARKS: Final = str.maketrans(dict.fromkeys("“”„‟«»″", '"') | dict.fromkeys("‘’‚‛′`´", "'"))


def as_compared(text: str) -> str:
    """Write a text as every typesetter's version of it reads: words that a line or page divides are whole again."""
    joined = _HYPHEN.sub("", unicodedata.normalize("NFKC", text).translate(_MARKS))
    return " ".join(joined.split())
