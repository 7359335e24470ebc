"""The smallest workflow there is, in the versions that the guide to changing a workflow speaks of."""

from datetime import timedelta

from temporalio import workflow

_STEP = timedelta(milliseconds=1)
TYPE = "Example"


@workflow.defn(name=TYPE)
class AsReleased:
    """Takes one step."""

    @workflow.run
    async def run(self) -> str:
        """Take it."""
        await workflow.sleep(_STEP)
        return "one"


@workflow.defn(name=TYPE)
class Unguarded:
    """Takes another step, whoever began."""

    @workflow.run
    async def run(self) -> str:
        """Take both."""
        await workflow.execute_activity("look", start_to_close_timeout=_STEP)
        await workflow.sleep(_STEP)
        return "two"


@workflow.defn(name=TYPE)
class Patched:
    """Takes another step if it began with this release."""

    @workflow.run
    async def run(self) -> str:
        """Take one step or two."""
        looks = workflow.patched("look-before-it-waits")
        if looks:
            await workflow.sleep(_STEP * 2)
        await workflow.sleep(_STEP)
        return "two" if looks else "one"


@workflow.defn(name=TYPE)
class NewRulesOnly:
    """Has forgotten the old rules, and says so."""

    @workflow.run
    async def run(self) -> str:
        """Take two steps."""
        workflow.deprecate_patch("look-before-it-waits")
        await workflow.sleep(_STEP * 2)
        await workflow.sleep(_STEP)
        return "two"


@workflow.defn(name=f"{TYPE}2")
class NewType:
    """Does everything otherwise, under another name."""

    @workflow.run
    async def run(self) -> str:
        """Wait for nothing."""
        return "two"


@workflow.defn(name=TYPE)
class ByEdition:
    """Takes another step if the edition that it was opened under says so."""

    @workflow.run
    async def run(self, edition: int = 1) -> str:
        """Take one step or two."""
        if edition >= 2:
            await workflow.sleep(_STEP * 2)
        await workflow.sleep(_STEP)
        return "two" if edition >= 2 else "one"
