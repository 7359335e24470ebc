"""Every code block of the documentation is read as what it claims to be, and its commands by the real parser."""

import ast
import importlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import cast

import typer.main
from typer.core import TyperGroup

from chargehand.contracts import ConversationRequest, SessionRequest
from chargehand.messages import CONVERSATION_MESSAGES, UPDATES
from chargehand_cli.main import VerbGroups, app
from tests.unit.deployment.test_documents import ROOT, documents

_FENCE = re.compile(r"^( *)```([\w{}-]*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`chargehand ([a-z][\w-]*)")
_SHELL = ("", "sh", "bash", "console", "shell")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "deploy" / "README.md",
    *(page for page in documents() if page.parent.name != "reference"),
]
"""All but the reference, which is generated from the code."""


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str


BLOCKS = [
    Block(f"{page.relative_to(ROOT)}:{found.start()}", found[2], re.sub(rf"^{found[1]}", "", found[3], flags=re.M))
    for page in PAGES
    for found in _FENCE.finditer(page.read_text(encoding="utf-8"))
]


def commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """List the arguments of every call of a program, with the page that shows it."""
    for block in BLOCKS:
        if block.language not in _SHELL:
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            words = _words(line.removeprefix("$ "))
            at = next((at for at, word in enumerate(words) if "=" not in word), 0)
            if words[at : at + 1] == ["docker"] and program in words:
                at = words.index(program)
            if words and words[at].rpartition("/")[2] == program and (line.startswith("$ ") or "$ " not in block.text):
                yield block.page, words[at + 1 :]


@cache
def command_line() -> VerbGroups:
    root = cast("VerbGroups", typer.main.get_command(app))
    root.add_plugin_verbs()
    return root


def _words(line: str) -> list[str]:
    try:
        return list(takewhile(lambda word: word not in {">", "|"}, shlex.split(line, comments=True)))
    except ValueError:
        return []


def test_every_code_block_of_the_pages_is_collected() -> None:
    fences = sum(page.read_text(encoding="utf-8").count("```") for page in PAGES)

    assert len(BLOCKS) == fences / 2 > 20
    assert {block.language for block in BLOCKS} <= {
        *(*_SHELL, "python", "json", "toml", "yaml", "text"),
        *("{toctree}", "{include}"),  # of the site
    }


def test_python_blocks_compile() -> None:
    """`await` is allowed outside functions, as in a notebook, and every imported name of ours exists."""
    for block in (each for each in BLOCKS if each.language == "python"):
        tree = compile(block.text, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
        compile(tree, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("chargehand"):
                module = importlib.import_module(node.module or "")
                assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def test_commands_exist_with_their_options() -> None:
    root = command_line()
    for page, said in commands("chargehand"):
        words, command = said, root
        while isinstance(command, TyperGroup):
            assert words[0] in command.commands, page
            command, words = command.commands[words[0]], words[1:]
        with command.make_context(None, words) as context:
            assert context.params


def test_verbs_in_the_text_exist() -> None:
    named = [(found[1], page.name) for page in PAGES for found in _INLINE.finditer(page.read_text(encoding="utf-8"))]

    assert len(named) > 100
    assert [(verb, page) for verb, page in named if verb not in command_line().commands] == []


def test_documented_make_targets_exist() -> None:
    for page, words in commands("make"):
        rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        assert [word for word in words if "=" not in word and word not in rules] == [], page


def test_documented_temporal_inputs_are_valid() -> None:
    found = [words for _, words in commands("temporal") if "--input" in words]

    assert found
    for words in found:
        update = words[words.index("--name") + 1] if "--name" in words else ""
        opens = ConversationRequest if "Conversation" in words else SessionRequest
        takes = {**UPDATES, **CONVERSATION_MESSAGES}[update].takes if update else opens
        assert takes
        assert takes.model_validate_json(words[words.index("--input") + 1])


def test_shell_blocks_have_valid_syntax() -> None:
    """`sh -n` accepts each block that is not a transcript."""
    scripts = [block for block in BLOCKS if block.language in _SHELL and "$ " not in block.text]
    broken = [
        block.page
        for block in scripts
        if subprocess.run(["sh", "-n"], input=block.text, text=True, capture_output=True, check=False).returncode
    ]

    assert broken == []
