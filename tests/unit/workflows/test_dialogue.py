"""The order of a conversation's messages, whatever the order in which they are admitted."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from chargehand.contracts import Success
from workflows.state.dialogue import Dialogue

NOW = datetime(2026, 11, 23, tzinfo=UTC)


@given(st.lists(st.sampled_from(["receive", "end job", "admit first", "admit last", "take"]), max_size=40))
def test_messages_are_taken_in_the_order_in_which_they_came(steps: list[str]) -> None:
    """A message that is not admitted yet holds back what came after it: messages, and the ends of jobs."""
    dialogue = Dialogue()
    waiting: list[str] = []
    unadmitted: dict[str, int] = {}
    for count, step in enumerate(steps):
        text = f"number {count}."
        if step == "receive":
            unadmitted[text] = dialogue.receive(text, text, NOW)
            waiting.append(text)
        elif step == "end job":
            dialogue.end_job(text, Success(content="", confidence=80), NOW)
            waiting.append(text)
        elif step.startswith("admit") and unadmitted:
            chosen = [*unadmitted][0 if step == "admit first" else -1]
            dialogue.admit(unadmitted.pop(chosen))
        has_message = bool(waiting) and waiting[0] not in unadmitted

        assert dialogue.has_message == has_message
        if step == "take" and has_message:
            assert waiting.pop(0) in dialogue.take().text
