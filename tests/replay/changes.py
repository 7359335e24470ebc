"""The smallest workflow, in each version that the guide to changing a workflow mentions."""

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
    """Takes another step without a patch."""

    @workflow.run
    async def run(self) -> str:
        """Take both."""
        await workflow.execute_activity("look", start_to_close_timeout=_STEP)
        await workflow.sleep(_STEP)
        return "two"


@workflow.defn(name=TYPE)
class Patched:
    """Takes another step, in runs that started after the change."""

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
    """Has deprecated the patch and deleted the old steps."""

    @workflow.run
    async def run(self) -> str:
        """Take two steps."""
        workflow.deprecate_patch("look-before-it-waits")
        await workflow.sleep(_STEP * 2)
        await workflow.sleep(_STEP)
        return "two"


@workflow.defn(name=f"{TYPE}2")
class NewType:
    """Has other steps under another name."""

    @workflow.run
    async def run(self) -> str:
        """Wait for nothing."""
        return "two"
