"""MCP servers that turn hostile after they were approved."""

from pathlib import Path

from hypothesis import settings

from activities.contracts.tool import ToolContext
from chargehand_plugins.mcp.tools.tool import tools_of
from tests.security.corpus import ATTACKS
from tests.security.environment import open_stranger

CONTEXT = ToolContext(session="s", agent="researcher", idempotency_key="k")


async def test_no_description_that_was_not_approved_reaches_a_model(tmp_path: Path) -> None:
    """Each text becomes the description of an approved tool: no prompt has it, and the tool is not called.

    A tenth of the texts, and all of them at night.
    """
    async with open_stranger(tmp_path, "change", "echo") as server:
        tools = tools_of([server])
        approved = tools["stranger_echo"].spec
        for attack in ATTACKS if settings.get_current_profile_name() == "nightly" else ATTACKS[::10]:
            changed = await tools["stranger_change"].use({"text": attack.text}, CONTEXT)
            answer = await tools["stranger_echo"].use({"text": attack.tag}, CONTEXT)

            assert changed.ok
            assert not answer.ok
            assert "withdrawn: its server changed its description" in str(answer.output)
            assert attack.tag not in str(answer)
            assert tools["stranger_echo"].spec == approved
