"""A worker in a process of one's own, by the public module `chargehand.worker`."""

import sys
from pathlib import Path
from uuid import uuid4

import pytest
from temporalio.client import Client

import chargehand.worker
from chargehand import Chargehand, SessionRequest
from chargehand.errors import MissingExtra, UnusableSettings
from chargehand.upload import store_documents
from chargehand.worker import Worker

_CREW = """
name = "inspectors"
description = "Answers questions about inspections."
guidance = "Everything is in the documents; the reader finds it."

[[agents]]
name = "reader"
description = "Reads the user's documents."
prompt = "Quote what the documents say."
tools = ["search_documents", "read_document"]
capabilities = ["reads_private"]
"""


async def test_a_worker_runs_sessions_in_a_process_of_ones_own(client: Client, tmp_path: Path) -> None:
    """A client without Chargehand's converter is enough for a worker that serves crews of one's own."""
    (tmp_path / "crews").mkdir()
    (tmp_path / "crews" / "inspectors.toml").write_text(_CREW, encoding="utf-8")
    (tmp_path / "rules.md").write_text("# Boilers\n\nThe valve of a boiler is tested every six months.\n")
    plain = await Client.connect(client.service_client.config.target_host)
    queue = f"embedded-{uuid4().hex[:8]}"
    state = tmp_path / "state"

    async with Worker(plain, crews=tmp_path / "crews", task_queue=queue, state_dir=state, provider="extractive"):
        documents = store_documents([tmp_path / "rules.md"], state / "artifacts")
        request = SessionRequest(goal="How often is the valve tested?", crew="inspectors", documents=documents)
        session = await Chargehand(client, queue).start(request)
        report = await session.result()

    assert "every six months" in report.answer
    assert {each.agent for each in report.subtasks} == {"reader"}


def test_a_missing_worker_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client package alone has the module, which says what to install."""
    for name in [each for each in sys.modules if each.partition(".")[0] == "chargehand_worker"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if not (Path(each) / "chargehand_worker").is_dir()])

    for name in ("Worker", "run"):
        with pytest.raises(MissingExtra, match=r"The worker is not installed: pip install 'chargehand\[worker\]'"):
            getattr(chargehand.worker, name)


async def test_settings_that_cannot_be_used_are_named(client: Client, tmp_path: Path) -> None:
    """Unknown names and invalid values are refused at once, wrong crews before anything polls."""
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(_CREW.replace("guidance", "guidence"), encoding="utf-8")

    with pytest.raises(UnusableSettings, match=r"serach is not a setting.*did you mean search\?"):
        Worker(client, serach="ddgs")
    with pytest.raises(UnusableSettings, match="CHARGEHAND_MAX_ACTIVITIES"):
        Worker(client, max_activities=0)
    with pytest.raises(UnusableSettings, match=r"The plug-in 'no_such_module'.*install it"):
        Worker(client, plugins=["no_such_module"])
    with pytest.raises(UnusableSettings, match=r"wrong\.toml.*guidence"):
        async with Worker(client, crews=tmp_path, state_dir=tmp_path / "state"):
            pass
