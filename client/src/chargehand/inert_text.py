"""Make Markdown inert where a viewer would run something in it: formulas with links and macros, and diagrams."""

import re
from typing import Final

_COMMAND: Final = re.compile(
    r"\\(?=(?:href|hyperref|url|nolinkurl|html\w*|mmlToken|style|class|cssId|includegraphics|include|input|require|"
    r"unicode|csname|catcode|(?:[egx]|long)?def|(?:future)?let|(?:re)?new(?:command|environment)|"
    r"providecommand|DeclareMathOperator)(?![A-Za-z]))"
)
"""TeX that leads or loads from elsewhere, or under another name defines what does."""
_FENCE: Final = re.compile(r"^((?:[ \t>*+-]|\d{1,9}[.)])*)(`{3,}|~{3,}|:{3,})(.*)$", re.MULTILINE)
_COLOURED: Final = re.compile(
    r"bash|c|c\+\+|cpp|cs|csharp|css|csv|diff|go|html|ini|java|javascript|js|jsonc?|kotlin|latex|markdown|md|php|"
    r"powershell|py|python|r|ruby|rust|sh|shell|sql|swift|text|toml|ts|tsx|txt|typescript|xml|ya?ml",
    re.IGNORECASE,
)
"""Languages that viewers only colour. They draw others, such as Mermaid, with pictures and links."""


def inert_programs(markdown: str) -> str:
    """Break commands of formulas that link, load or define, and let code blocks name no language that is drawn.

    A text of one line opens no code block.
    """
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n")

    def opened(fence: re.Match[str]) -> str:
        before, marks, named = fence.groups()
        if marks[0] == "`" and "`" in named:  # code within a line
            return fence[0]
        if "\n" not in lines:
            return f"{before}\\{marks}{named}"
        if not named.strip() or (marks[0] != ":" and _COLOURED.fullmatch(named.split()[0])):
            return f"{before}{marks}{''.join(named.split()[:1])}"
        return f"{before}{marks}text"  # without any name, it could end a block that is open

    return _FENCE.sub(opened, _COMMAND.sub(r"\ ", lines))
