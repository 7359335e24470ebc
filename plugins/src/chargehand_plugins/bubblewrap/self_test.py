"""The self-test of the sandbox, which is offered only if no known escape from it works on this host."""

import asyncio
import json
import logging
import secrets
import tempfile
from pathlib import Path
from typing import Final

from temporalio.exceptions import ApplicationError

from activities.tools.code.protocol import CodeResult, Language
from chargehand_plugins.bubblewrap.runner import BubblewrapRunner, SandboxUnusableError

_PROBES: Final[dict[Language, Path]] = {
    "python": Path(__file__).with_name("probe.py"),
    "javascript": Path(__file__).with_name("probe.cjs"),
}
_logger: Final = logging.getLogger("chargehand.code")


async def require_tight(runner: BubblewrapRunner) -> None:
    """Try to escape from the sandbox; JavaScript is offered if Node is installed and cannot escape either.

    Raises:
        SandboxUnusableError: an escape works, or cannot be tried.
    """
    runner.start()
    await _require_no_escape(runner, "python")
    if not runner.find_node():
        return
    try:
        await _require_no_escape(runner, "javascript")
    except SandboxUnusableError as error:
        _logger.warning("JavaScript is not offered: %s", error)
    else:
        runner.offer_javascript()


async def _require_no_escape(runner: BubblewrapRunner, language: Language) -> None:
    # Outside every folder that the sandbox contains.
    with tempfile.TemporaryDirectory(prefix="chargehand-canary-") as folder:
        canary = await asyncio.to_thread(_Canary, Path(folder))
        probe = await asyncio.to_thread(_PROBES[language].read_text)
        declared = "const CANARIES" if language == "javascript" else "CANARIES"
        result = await _run_probe(runner, f"{declared} = {json.dumps([str(canary.file), folder])}\n{probe}", language)
        was_reached = await asyncio.to_thread(canary.was_touched) or canary.secret in result.model_dump_json()
    escapes = _escapes(result)
    if was_reached:
        escapes.append("reach a file of the host")
    if escapes:
        raise SandboxUnusableError(f"on this host, code in the bubblewrap sandbox can {', '.join(escapes)}")


class _Canary:
    """A folder that is writable for everyone, with a secret that everyone can read."""

    def __init__(self, folder: Path) -> None:
        self.secret = secrets.token_hex(16)
        folder.chmod(0o777)
        self.file = folder / "secret.txt"
        self.file.write_text(self.secret)

    def was_touched(self) -> bool:
        return [*self.file.parent.iterdir()] != [self.file] or self.file.read_text() != self.secret


async def _run_probe(runner: BubblewrapRunner, code: str, language: Language) -> CodeResult:
    try:
        return await runner.run(code, "self-test", language=language)
    except ApplicationError as error:
        raise SandboxUnusableError(
            f"{error.message}. It needs user namespaces, which many containers and some hosts do not allow"
        ) from error


def _escapes(result: CodeResult) -> list[str]:
    try:
        names: object = json.loads(result.stdout)
    except ValueError:
        names = None
    if result.error or not isinstance(names, list):
        reason = (result.error or "no output").strip().rpartition("\n")[2]
        raise SandboxUnusableError(f"the self-test of the bubblewrap sandbox did not finish: {reason}")
    return [str(name) for name in names]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
