"""The limited process that reads git repositories. Started by `chargehand_plugins.code_review.git_folder`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from activities.processes import limits
from chargehand_plugins.code_review.git_folder import RepositoryError
from chargehand_plugins.code_review.repository import Repository

_MEMORY_BYTES: Final = 1 << 30
_FILE_BYTES: Final = 64 << 20


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question about a repository; an empty one has no answer."""
    if not question:
        return {}
    limits.allow_processor_seconds(question["processor_seconds"])
    try:
        return _read(Repository(Path(question["folder"])), question)
    except RepositoryError as error:
        return {"problem": str(error)}
    except MemoryError:
        return {"problem": "it takes more memory to read than a repository may"}
    except Exception as error:  # noqa: BLE001 - hostile objects raise whatever the library did not expect
        return {"problem": f"it is broken ({type(error).__name__})"}


def _read(repository: Repository, question: dict[str, Any]) -> dict[str, Any]:
    match question["ask"]:
        case "diff":
            Path(question["result"]).write_bytes(repository.diff().encode(errors="replace"))
            return {}
        case "read":
            return {"text": repository.read(question["path"])}
        case "history":
            return {"commits": [asdict(commit) for commit in repository.history(question["path"], question["most"])]}
        case _:
            return {"id": repository.id}


if __name__ == "__main__":
    limits.confine(_MEMORY_BYTES, _FILE_BYTES)
    limits.serve(answer)
