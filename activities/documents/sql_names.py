"""SQL names for tables and columns, quoting, and the settings of a locked-down DuckDB."""

import re
import unicodedata
from typing import Final

_LONGEST: Final = 48
_RESERVED: Final = frozenset(
    """
    all analyse analyze and anti any array as asc asof asymmetric at authorization between binary both by case cast
    check collate collation column columns concurrently constraint create cross default deferrable desc describe
    distinct do else end except false fetch for foreign freeze from full generated glob group having ilike in
    initially inner intersect into is isnull join lambda lateral leading left like limit map natural not notnull null
    offset on only or order outer overlaps pivot pivot_longer pivot_wider placing positional primary qualify
    references returning right select semi show similar some struct summarize symmetric table tablesample then to
    trailing true try_cast tuple union unique unpack unpivot using variadic verbose when where window with
    """.split()  # noqa: SIM905 - a list of words reads best as text
)
"""DuckDB's reserved words."""
LOCKED: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "2",
    "temp_directory": "",
}
"""Settings of every connection: no extensions, no access to Python variables, no temporary files."""


def sql_name(text: str, taken: set[str], fallback: str) -> str:
    """Make a name of letters, digits and `_` that needs no quotes and is not taken yet; it is added to `taken`."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    name = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]+", "_", plain.encode("ascii", "ignore").decode())).strip("_")
    name = name[:_LONGEST].strip("_") or fallback
    if name[0].isdigit():
        name = f"{fallback}_{name}"
    if name in _RESERVED:
        name = f"{name}_"
    unique = name
    number = 2
    while unique in taken:
        unique = f"{name}_{number}"
        number += 1
    taken.add(unique)
    return unique


def quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
