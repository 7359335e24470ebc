"""Versions of crews that sessions began with."""

from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError

from activities.contracts.crew import Agent, Crew
from activities.crews import versions as crew_versions
from activities.crews.versions import CrewVersions
from activities.documents.artifacts import ArtifactStore
from chargehand import ErrorType


def agent(name: str) -> Agent:
    return Agent(name=name, description="Answers questions.", prompt="Answer the question.")


async def test_a_version_that_is_no_longer_in_memory_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sessions describe agents of their own, few versions are kept in memory, and all can be found."""
    monkeypatch.setattr(crew_versions, "MOST_KEPT", 2)
    crew = Crew(name="small", description="Answers questions.", guidance="Ask its agents.", agents=(agent("a"),))
    versions = CrewVersions({"small": crew}, {}, store=ArtifactStore(tmp_path))
    pinned = await versions.pin("small")
    assert pinned is not None

    extended = [await versions.with_agents(pinned, [agent(f"b{number}")]) for number in range(4)]

    found = [await versions.find(each.reference) for each in extended]
    assert [each.crew.agents[-1].name for each in found] == ["b0", "b1", "b2", "b3"]
    assert len(vars(versions)["_known"]) == 2


async def test_a_version_that_cannot_be_read_is_unavailable(tmp_path: Path) -> None:
    """A stored version of another build, or a damaged one, is refused once and for all."""
    for content in (b"", b"{", b"[]", b'{"crews": 1}', b"\xff"):
        store = ArtifactStore(tmp_path)
        versions = CrewVersions({}, {}, store=store)
        with pytest.raises(ApplicationError) as caught:
            await versions.find(f"small@{store.put(content)}")
        assert (caught.value.type, caught.value.non_retryable) == (ErrorType.CREW_UNAVAILABLE, True)
