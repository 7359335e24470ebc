"""JavaScript in the real bubblewrap.

Where bubblewrap or Node is unusable, each test that runs inside it checks instead that JavaScript is not offered.
"""

import functools
import re
from pathlib import Path

import pytest

from activities.tools.code.protocol import CodeResult, GivenFile
from activities.tools.outputs import ToolOutput
from chargehand_plugins.bubblewrap import self_test
from chargehand_plugins.bubblewrap.runner import BubblewrapLimits, BubblewrapRunner
from chargehand_plugins.bubblewrap.self_test import require_tight
from chargehand_plugins.bubblewrap.tests import bubblewrap_sandbox as sandbox

LIMITS = BubblewrapLimits(seconds=20.0, memory_bytes=256 << 20, folder_bytes=16 << 20, files=500, output_bytes=10_000)


inside = functools.partial(sandbox.inside, needs="node")
ran = functools.partial(sandbox.ran, limits=LIMITS, language="javascript")


@inside
async def test_javascript_is_not_offered_if_node_escapes_the_sandbox(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A Node that fails the self-test is left out, and Python stays available."""
    probe = tmp_path / "probe.cjs"
    probe.write_text("console.log(JSON.stringify(['open sockets']))")
    monkeypatch.setitem(self_test._PROBES, "javascript", probe)  # pyright: ignore[reportPrivateUsage]  # the probe file
    runner = BubblewrapRunner()

    await require_tight(runner)

    assert runner.languages == ("python",)


async def test_javascript_is_not_offered_without_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No other runtime replaces a `node` that is not on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert not BubblewrapRunner().find_node()


@inside
async def test_javascript_returns_the_same_results_as_python(tmp_path: Path) -> None:
    """Output, last value, rows, documents and returned files work as in Python programs."""
    document = tmp_path / "document"
    document.write_text("Ebbe und Flut")
    code = """
const fs = require("fs");
console.log(fs.readFileSync("documents/tides.md", "utf8"));
console.error("careful");
fs.writeFileSync("artifacts/tides.csv", "high,low\\n");
fs.symlinkSync("/program.cjs", "artifacts/link");
rows.map((row) => row.height * 2)
"""

    result = await ran(code, files=(GivenFile("tides.md", document),), rows=[{"height": 1.5}, {"height": 2}])

    printed = CodeResult(stdout="Ebbe und Flut\n", stderr="careful\n", value="[ 3, 4 ]")
    made = ToolOutput(name="tides.csv", content=b"high,low\n")
    assert result == printed.model_copy(update={"files": (made,), "left_out": ("link: not a regular file",)})


@pytest.mark.slow
@inside
async def test_every_javascript_run_returns_a_value_or_an_error() -> None:
    """An error ends with its cause; escape attempts, crashes and endless memory or output are errors too."""
    cases = [
        ("new Promise((done) => setTimeout(done, 5, 'late'))", "'late'", ""),
        ("import('node:os').then((os) => os.EOL.length)", "1", ""),
        ("'\\ud800'.length", "1", ""),
        ("let x = ;", "", "SyntaxError: Unexpected token ';'"),
        ("const n = 1;\nn();", "", "TypeError: n is not a function"),
        ("setTimeout(() => { throw new RangeError('late'); }, 5)", "", "RangeError: late"),
        ("Promise.reject(new Error('refused'))", "", "Error: refused"),
        ("throw 7", "", "Uncaught 7"),
        ("process.exit(3)", "", "process.exit: 3"),
        ("require('child_process').execSync('true')", "", "Error: spawnSync /bin/sh EPERM"),
        ("require('net').connect(80, '127.0.0.1')", "", "Error: connect EPERM 127.0.0.1:80"),
        ("require('fs').writeFileSync('/program.cjs', '')", "", "Error: EROFS: read-only file system"),
        ("process.kill(process.ppid, 0); process.abort()", "", "The program ended its process"),
        ("const a = []; for (;;) a.push(new Uint8Array(1 << 24).fill(1));", "", "allocation failed|limit of memory"),
        ("for (;;) console.log('x'.repeat(1000))", "", "The code printed more than 10000 bytes"),
    ]
    for code, value, error in cases:
        result = await ran(code)
        assert result.value == value
        assert re.search(error, result.error)
        assert bool(error) == bool(result.error)


@inside
async def test_endless_javascript_is_stopped() -> None:
    """The time limit is the same as for Python."""
    result = await ran("for (;;) {}", limits=LIMITS.model_copy(update={"seconds": 1.0}))

    assert result.error == "The code ran longer than 1 seconds and was stopped. Do less at once."
