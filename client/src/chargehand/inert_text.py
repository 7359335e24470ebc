"""Makes Markdown inert where a viewer would run something in it: diagrams, and formulas with links or macros."""

import re
from typing import Final

_COMMAND: Final = re.compile(
    r"\\(?=(?:href|hyperref|url|nolinkurl|html\w*|mmlToken|style|class|cssId|includegraphics|include|input|require|"
    r"unicode|csname|catcode|(?:[egx]|long)?def|(?:future)?let|(?:re)?new(?:command|environment)|"
    r"providecommand|DeclareMathOperator)(?![A-Za-z]))"
)
"""TeX commands that link or load, or that define other names for such commands."""
_FENCE: Final = re.compile(r"^((?:[ \t>*+-]|\d{1,9}[.)])*)(`{3,}|~{3,}|:{3,})(.*)$", re.MULTILINE)
_COLOURED: Final = re.compile(
    r"bash|c|c\+\+|cpp|cs|csharp|css|csv|diff|go|html|ini|java|javascript|js|jsonc?|kotlin|latex|markdown|md|php|"
    r"powershell|py|python|r|ruby|rust|sh|shell|sql|swift|text|toml|ts|tsx|txt|typescript|xml|ya?ml",
    re.IGNORECASE,
)
"""Languages that viewers only colour. Others, such as Mermaid, are drawn, with pictures and links."""


def inert_programs(markdown: str) -> str:
    """Break formula commands that link, load or define, and rename code block languages that viewers would draw.

    A text of one line never opens a code block.
    """
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n")

    def opened(fence: re.Match[str]) -> str:
        before, marks, named = fence.groups()
        if marks[0] == "`" and "`" in named:  # inline code
            return fence[0]
        if "\n" not in lines:
            return f"{before}\\{marks}{named}"
        if not named.strip() or (marks[0] != ":" and _COLOURED.fullmatch(named.split()[0])):
            return f"{before}{marks}{''.join(named.split()[:1])}"
        return f"{before}{marks}text"  # without a language, it could end an open block

    return _FENCE.sub(opened, _COMMAND.sub(r"\ ", lines))
