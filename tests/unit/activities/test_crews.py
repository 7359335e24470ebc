"""Crews as data: what is accepted, how mistakes are reported, what the page says, and crew versions."""

import os
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.contracts.crew import Agent, Crew, RouteRule, Routing, SlowQueue
from activities.contracts.tool import READS_DOCUMENTS, READS_THE_WEB
from activities.crews import versions as crew_versions
from activities.crews.files import CrewError, crew_warnings, load_crew, load_crews
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from chargehand import ErrorType
from chargehand.contracts import ToolRule
from tests.processor_time import processor_seconds

SHIPPED = Path(__file__).parents[3] / "crews"
TOOLS = {
    "search": READS_THE_WEB,
    "read_page": READS_THE_WEB,
    "search_documents": READS_DOCUMENTS,
    "read_document": READS_DOCUMENTS,
    "query_data": READS_DOCUMENTS,
    "draw_chart": READS_DOCUMENTS,
    "run_code": READS_DOCUMENTS,
    "read_diff": READS_DOCUMENTS,
    "read_code": READS_DOCUMENTS,
    "code_history": READS_DOCUMENTS,
}
AGENT = """
[[agents]]
name = "reader"
description = "Reads what there is to read."
prompt = "Read it, and say what it says."
tools = ["read_document"]
capabilities = ["reads_private"]
"""
CREW = f"""
name = "small"
description = "Answers small questions."
guidance = "Plan little, and plan it well."
{AGENT}"""


def _load(folder: Path, text: str) -> Crew:
    (folder / "crew.toml").write_text(text, encoding="utf-8")
    [crew] = load_crews([folder], TOOLS).values()
    return crew


def _refusal(folder: Path, text: str) -> str:
    with pytest.raises(CrewError) as caught:
        _load(folder, text)
    return str(caught.value).removeprefix(f"{folder / 'crew.toml'}: ")


def test_the_shipped_crew_loads() -> None:
    crew = load_crews([SHIPPED], TOOLS)["research"]

    assert {agent.name: agent.tools for agent in crew.agents} == {
        "researcher": ("search", "read_page"),
        "reader": ("search_documents", "read_document"),
        "analyst": ("query_data", "draw_chart", "run_code"),
        "writer": (),
        "reviewer": (),
    }
    assert len({agent.prompt for agent in crew.agents}) == 5


def test_a_user_crew_replaces_a_shipped_crew_of_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(CREW.replace('"small"', '"research"'), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not a crew", encoding="utf-8")
    crews = load_crews([SHIPPED, tmp_path], TOOLS)

    shipped = load_crews([SHIPPED], TOOLS)
    assert crews["research"].description == "Answers small questions."
    assert {**shipped, "research": crews["research"]} == crews


def test_each_mistake_names_file_and_field(tmp_path: Path) -> None:
    def beside(line: str) -> str:
        return CREW.replace("guidance", f"{line}\nguidance", 1)

    bad = CREW.replace
    reach_out = '["reads_private", "reads_untrusted", "reaches_out"]'
    routed_twice = '{ rules = [{ match = ["*"], agents = ["reader"], then = "reader" }] }'
    cases = [
        ("name = ", "is not TOML: Invalid value (at end of document)"),
        (bad('"small"', '"Small"'), "name: must be a name of at most 40"),
        (bad('description = "Answers small questions."', ""), "description: is required"),
        (
            bad("guidance", "guidence"),
            "guidance: is required; guidence: is not a known field; did you mean 'guidance'?",
        ),
        (
            bad("prompt", "promt"),
            "agents.0.prompt: is required; agents.0.promt: is not a known field; did you mean 'prompt'?",
        ),
        (bad(AGENT, ""), "agents: is required"),
        (bad("Read it, and say what it says.", "Read."), "agents.0.prompt: must have at least 10 characters"),
        (CREW + 'tier = "huge"', "agents.0.tier: must be 'small', 'medium' or 'large'"),
        (
            bad('"read_document"', '"read_mind"'),
            "agents.reader.tools: there is no tool 'read_mind'; there are code_history, draw_chart, query_data, ",
        ),
        (CREW + 'fallback = "pirate"', "agents.reader.fallback: 'pirate' is not another agent of this crew"),
        (CREW + 'fallback = "reader"', "agents.reader.fallback: 'reader' is not another agent of this crew"),
        (
            bad('"reader"', '"supervisor"'),
            "agents.supervisor: the name 'supervisor' stands for nested sessions; choose another",
        ),
        (CREW + AGENT, "agents: the name 'reader' occurs 2 times"),
        (
            bad('capabilities = ["reads_private"]\n', ""),
            "agents.reader.capabilities: its tools let it do 'reads_private'; declare that, or take the tool away",
        ),
        (
            bad('["read_document"]', '["read_document", "read_page"]').replace('["reads_private"]', reach_out),
            "agents.reader.tools: together they read what strangers write",
        ),
        (beside('routing = { fallback = "pirate" }'), "routing.fallback: there is no agent 'pirate' in this crew"),
        (
            beside('routing = { otherwise = "model" }'),
            'routing.fallback: is required with otherwise = "model"; name the agent',
        ),
        (beside(f"routing = {routed_twice}"), "routing.rules.0: names an agent twice; one agent gets a request once"),
        (beside("limits = { deadline = 86400 }"), "limits.deadline: a crew's own deadline is 12 hours at most"),
        (beside("limits = { max_turns = 0 }"), "limits.max_turns: must be greater than or equal to 1"),
        (beside("confidence_threshold = 101"), "confidence_threshold: must be less than or equal to 100"),
        (CREW + "slow = { after = 1 }\n", "agents.0.slow: name either a backup agent or a backup tier"),
        (
            CREW + 'slow = { after = 1, agent = "reader" }\n',
            "agents.reader.slow.agent: 'reader' is not another agent of this crew",
        ),
    ]
    for text, told in cases:
        assert _refusal(tmp_path, text).startswith(told)


def test_oversized_or_deeply_nested_crew_files_are_refused_quickly(tmp_path: Path) -> None:
    """No file stalls worker startup or fails with another error; a named pipe is not opened."""
    cases = [
        ("#" * 300_000, "is larger than 256 KiB"),  # huge
        ("a." * 100_000 + "a = 1", "has a key of more than 20 parts; no table is that deep"),  # endless key
        ("[" + " 'a' ." * 30_000 + " a ]\n", "has a key of more than 20 parts; no table"),  # endless table
        ("a = " + "[" * 100_000 + "]" * 100_000, "is nested too deeply"),  # arrays
        ("a = " + "{a = " * 5_000 + "1" + "}" * 5_000, "is nested too deeply"),  # inline tables
        ("a = " + "9" * 5_000, "has a number of too many digits"),
    ]
    for text, told in cases:
        with processor_seconds(1.5):
            refusal = _refusal(tmp_path, text)
        assert refusal.startswith(told)
    (tmp_path / "crew.toml").unlink()
    os.mkfifo(tmp_path / "crew.toml")
    with pytest.raises(CrewError, match="is not a regular file"):
        load_crews([tmp_path], TOOLS)


def test_an_agent_loses_tools_that_are_not_available() -> None:
    """If search reads the user's documents, the shipped researcher cannot open web pages."""
    local = TOOLS | {"search": READS_DOCUMENTS}
    crew = load_crews([SHIPPED], local, absent={"read_page"})["research"]

    researcher = crew.agent("researcher")
    assert researcher is not None
    assert researcher.tools == ("search",)
    with pytest.raises(CrewError, match="split them between two agents"):
        load_crews([SHIPPED], local)


def _many(count: int) -> str:
    agents = (AGENT.replace('"reader"', f'"reader-{number}"') for number in range(count))
    return CREW.replace(AGENT, "") + "".join(agents)


def test_read_only_tools_may_be_shared_but_acting_tools_may_not(tmp_path: Path) -> None:
    (tmp_path / "crew.toml").write_text(_many(2), encoding="utf-8")

    assert len(load_crews([tmp_path], TOOLS)["small"].agents) == 2
    with pytest.raises(CrewError, match="'read_document' changes something and belongs to 2 agents; give it to one"):
        load_crews([tmp_path], TOOLS, acting={"read_document"})


def test_too_many_agents_cause_a_warning_and_then_a_refusal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The worker warns above 7; above 10 it requires a nested crew, which must exist."""
    _load(tmp_path, _many(7))
    assert not caplog.messages
    _load(tmp_path, _many(8))
    assert ["above 7" in message for message in caplog.messages] == [True]
    assert _refusal(tmp_path, _many(11)).startswith("agents: there are 11; 10 at most without nesting")
    nested = _many(11).replace("guidance", 'nested = "small"\nguidance', 1)
    assert len(_load(tmp_path, nested).agents) == 11
    refusal = _refusal(tmp_path, nested.replace('nested = "small"', 'nested = "big"'))
    assert refusal == "nested: there is no crew 'big'; there are small"


def test_an_agent_with_more_than_15_tools_causes_a_warning(tmp_path: Path) -> None:
    crew = _load(tmp_path, _many(1))
    [agent] = crew.agents
    warnings = [
        crew_warnings(crew.model_copy(update={"agents": (agent.model_copy(update={"tools": ("read",) * count}),)}))
        for count in (15, 16)
    ]

    assert warnings == [
        [],
        [f"agents: '{agent.name}' has 16 tools; above 15 a model chooses less well. Divide them among agents"],
    ]


def test_a_nested_crew_with_more_permissions_causes_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, tools, nested in (("above", [], 'nested = "below"'), ("below", ["search", "refund"], "")):
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\ndescription = "A team for a test."\nguidance = "Give the agent all of it."\n{nested}\n'
            '[[agents]]\nname = "agent"\ndescription = "Does what there is to do."\n'
            f'prompt = "Do what you are told."\ntools = {tools}\ncapabilities = ["reaches_out"]\n'
        )
    load_crews([tmp_path], {"search": ("reaches_out",), "refund": ()}, acting=("refund",))

    assert caplog.messages == [
        "crew above: nested: 'agent' of crew 'below' is left out, because no agent of this crew may do 'reaches_out'",
        "crew above: nested: 'refund' is withheld from crew 'below', because no agent of this crew has it",
    ]


PAGE = Path(__file__).parents[3] / "docs/how-to/own-crew.md"


def test_the_crew_file_of_the_approval_page_is_valid(tmp_path: Path) -> None:
    page = (PAGE.parent / "approving-tool-calls.md").read_text(encoding="utf-8")
    (tmp_path / "refunds.toml").write_text(page.partition("```toml\n")[2].partition("```")[0])

    crew = load_crew(tmp_path / "refunds.toml", {"fraud_check": (), "refund": ()}, acting=("refund",))
    [agent] = crew.agents
    assert set(ToolRule.model_fields) == {name for rule in agent.policy for name in rule.model_fields_set}
    assert all(f"`{name}`" in page for name in ToolRule.model_fields)


@pytest.mark.parametrize("kind", [Crew, Agent, Routing, RouteRule, SlowQueue])
def test_every_field_is_documented(kind: type[Crew | Agent | Routing | RouteRule | SlowQueue]) -> None:
    page = PAGE.read_text(encoding="utf-8")

    forms = ("`{}`", "{} = ", "[{}]", "[{}]]", ".{}]]")
    assert [name for name in kind.model_fields if not any(form.format(name) in page for form in forms)] == []


def agent(name: str) -> Agent:
    return Agent(name=name, description="Answers questions.", prompt="Answer the question.")


async def test_an_evicted_crew_version_is_read_from_the_store_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew_versions, "MOST_KEPT", 2)
    crew = Crew(name="small", description="Answers questions.", guidance="Ask its agents.", agents=(agent("a"),))
    versions = CrewVersions({"small": crew}, {}, store=ArtifactStore(tmp_path))
    pinned = await versions.pin("small")
    assert pinned is not None

    extended = [await versions.with_agents(pinned, [agent(f"b{number}")]) for number in range(4)]

    found = [await versions.find(each.reference) for each in extended]
    assert [each.crew.agents[-1].name for each in found] == ["b0", "b1", "b2", "b3"]
    assert len(vars(versions)["_known"]) == 2


async def test_an_unreadable_crew_version_is_unavailable(tmp_path: Path) -> None:
    """A stored version that is damaged or from another build is refused without a retry."""
    for content in (b"", b"{", b"[]", b'{"crews": 1}', b"\xff"):
        store = ArtifactStore(tmp_path)
        versions = CrewVersions({}, {}, store=store)
        with pytest.raises(ApplicationError) as caught:
            await versions.find(f"small@{store.put(content)}")
        assert (caught.value.type, caught.value.non_retryable) == (ErrorType.CREW_UNAVAILABLE, True)
