"""British and American spellings of the same word."""

import re
from typing import Final

_SPELLINGS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^(licen|defen|offen|preten)c(e[sd]?|ing)$", r"\1s\2"),
        (r"^(licen|defen|offen|preten)s(e[sd]?|ing)$", r"\1c\2"),
        (r"^(\w{2,}[^aeiou])our(s|ed|ing|able|al|ite|ful)?$", r"\1or\2"),
        (r"^(behavi)our(s|al)?$", r"\1or\2"),
        (r"^(col|fav|behavi|hon|lab|harb|neighb|hum|rum|arm|endeav|vap|od)or(s|ed|ing|able|al|ite|ful)?$", r"\1our\2"),
        (r"^(\w{3,})is(e[sdr]?|ers|ing|ations?)$", r"\1iz\2"),
        (r"^(\w{3,})iz(e[sdr]?|ers|ing|ations?)$", r"\1is\2"),
        (r"^(\w+)ys(e[sdr]?|ing)$", r"\1yz\2"),
        (r"^(\w+)yz(e[sdr]?|ing)$", r"\1ys\2"),
        (r"^(cent|met|lit|theat|fib)re(s?)$", r"\1er\2"),
        (r"^(cent|met|lit|theat|fib)er(s?)$", r"\1re\2"),
        (r"^(catalog|dialog|program)(?:ue|me)(s?)$", r"\1\2"),
        (r"^(catalog|dialog)(s?)$", r"\1ue\2"),
    )
)


def variants(word: str) -> tuple[str, ...]:
    """List a word, in lower case, and its other spelling if it has one."""
    spelled = (pattern.sub(replacement, word) for pattern, replacement in _SPELLINGS if pattern.match(word))
    return tuple(dict.fromkeys((word, *spelled)))
