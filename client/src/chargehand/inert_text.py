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
    "asm|bash|c|c#|c[+]{2}|clojure|cmake|console|cpp|cs|csharp|css|csv|dart|diff|dockerfile|elixir|erlang|fortran|go|"
    "graphql|groovy|haskell|hcl|html|http|ini|java|javascript|js|jsonc?|jsx|julia|kotlin|latex|lisp|lua|make|makefile|"
    "markdown|matlab|md|nginx|objc|ocaml|patch|perl|php|powershell|properties|proto|py|python|r|rb|rs|ruby|rust|scala|"
    "scss|sh|shell|sql|swift|terraform|tex|text|toml|ts|tsx|txt|typescript|vb|xml|ya?ml|zig",
    re.IGNORECASE,
)
"""Languages that viewers only colour. They draw others, such as Mermaid, with pictures and links that these name."""


def inert_programs(markdown: str) -> str:
    """Break commands of formulas that link, load or define, and let code blocks name no language that is drawn.

    A text of one line opens no code block.
    """
    lines = markdown.replace("\r\n", "\n").replace("\r", "\n")
    is_line = "\n" not in lines

    def opened(fence: re.Match[str]) -> str:
        before, marks, named = fence.groups()
        if marks[0] == "`" and "`" in named:  # code within a line
            return fence[0]
        if is_line:
            return f"{before}\\{marks}{named}"
        if not named.strip():  # it may end a block
            return fence[0]
        language = named.split()[0]
        is_known = marks[0] != ":" and _COLOURED.fullmatch(language)
        # Without any name, the line could end a block that is open.
        return f"{before}{marks}{language if is_known else 'text'}"

    return _FENCE.sub(opened, _COMMAND.sub(r"\ ", lines))
