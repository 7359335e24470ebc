"""Reports as Markdown and as a page: everything is in it, nothing can be smuggled in."""

import re
from decimal import Decimal
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from chargehand import Artifact, Contradiction, Grade, Source, Usage
from chargehand.errors import InvalidInput
from chargehand_cli.rendering.escaping import error_text
from chargehand_cli.rendering.page import report_page
from chargehand_cli.rendering.svg import plan_graph, timeline
from chargehand_cli.rendering.terminal_report import put_on_screen, short_text
from chargehand_cli.rendering.text import dollars, report_markdown
from tests.unit.cli.reports import report, trace


class Page(HTMLParser):
    """Parses a page: its elements, its text, and whether all elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._said: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "br", "hr", "img"}:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self._said.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self._said).split())

    def each(self, name: str, *tags: str) -> list[str | None]:
        """List an attribute's values: of all elements that have it, or of the elements with these tags."""
        return [found.get(name) for tag, found in self.elements if (tag in tags if tags else name in found)]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_terminal_shows_the_answer_at_every_width(width: int) -> None:
    query = Source(ref="sql:d932a81d", title="SELECT 1", quote="n\n1", about="outages.csv: sum of minutes")
    manual = Source(ref="manual.pdf#page=2", title="Manual > 3 Oil > 3.1 When", quote="every six months")
    of = report(answer="They are **tested** [S1], “every six months” [S2].", sources=(query, manual))
    output = StringIO()
    put_on_screen(of, Console(file=output, width=width))
    shown = output.getvalue()
    words = " ".join(re.sub(r"[*│ ]+", " ", shown).split())

    assert max(map(len, shown.splitlines())) <= width
    assert words.startswith(
        "Answered, not all verified · 1 min 35 s · $0.0123 · confidence 80 of 100 They are tested [1], “every six"
    )
    assert words.endswith("[1] outages.csv: sum of minutes [2] manual.pdf, page 2: 3.1 When")
    assert "Open: - The test of 2024 was not found." in words
    assert words.count("every six months") == 1
    assert "SELECT" not in words
    assert " ".join(short_text(of).replace("**", "").split()) == words
    assert not any(query.ref in made for made in (report_page(of, trace()), report_markdown(of)))
    assert "It may." in report_page(of, trace())


def test_markdown_contains_the_whole_report() -> None:
    assert report_markdown(report()) == (
        "They are **tested** twice a year [S1], and [S2] agrees.\n\n"
        "## Contradictions\n\n- the interval\n  - 6 months [S1]\n  - a year [S2]\n  - *S1*\n\n"
        "## Not found or not done\n\n- The test of 2024 was not found.\n\n"
        "## Sources\n\n"
        "- **[S1]** boilers.md#L3: Boiler rules\n  > tested every six months\n"
        "- **[S2]** https://example.org/b: Boilers\n\n"
        "## Claims\n\n- supported [S1]: They are tested\n- cited [S2]: and &lt;b> agrees. (It may.)\n\n"
        "---\n\n"
        "answered, not all verified · confidence 80 of 100 · claims: 1 supported, 1 cited · "
        "claude-sonnet-5-5 · 3 turns · 2 tool calls · $0.0123 · 1 min 35 s · "
        "speed-up 1.5×\n"
    )


_ON_THE_PAGE = (
    "How safe are our boilers?", "twice a year", "The test of 2024 was not found.", "tested every six months",
    "12,000", "3 of 20", "no answer",
)  # fmt: skip


def test_the_page_contains_the_whole_report() -> None:
    page = Page(report_page(report(), trace()))

    assert [part for part in _ON_THE_PAGE if part not in page.words] == []
    assert page.each("href", "a") == ["#S1", "#S2", "#S1", "#S2", "https://example.org/b", "#S1", "#S2"]
    assert page.each("id") == ["S1", "S2"]
    assert page.each("aria-label", "svg") == ["Plan with 3 subtasks", "Timeline"]


def test_unverified_claims_are_marked_as_unverified() -> None:
    made = report(stop_reason="unwritten", notice="No model could write <this>.")

    page, markdown = Page(report_page(made)), report_markdown(made)
    assert markdown.startswith("> **No model could write &lt;this>.**\n\n")
    assert "completed" not in markdown
    assert ("p", {"class": "notice", "role": "note"}) in page.elements
    assert "No model could write <this>." in page.words
    assert [name for name in page.each("class", "span") if name and name.startswith("verification")] == [
        "verification state-success",
        "verification state-partial",
    ]


_MADE = Artifact(
    uri="artifact:" + "0" * 64 + "/by-month.png",
    name="by-month.png",
    media_type="image/png",
    bytes=48_200,
    title="Incidents <by> month",
)
_DECIDED = Contradiction(about="the interval", positions=("6 months [S1]",), resolution="S1 is newer.", confidence=85)
_WASTED = Usage(turns=2, cost_usd=Decimal("0.0040"))
_GRADES = (
    Grade(criterion="Names a date.", met=True, reason="It names May."),
    Grade(criterion="Is short.", met=False, reason="<b>Long"),
)


def test_a_report_shows_files_waste_grades_and_judge_confidence() -> None:
    made = report(
        artifacts=(_MADE,), contradictions=(_DECIDED,), wasted=_WASTED, grades=_GRADES, reserved_usd=Decimal("0.5")
    )
    page, markdown = Page(report_page(made, trace())), report_markdown(made)
    words = page.words

    assert "by-month.png image/png, 48 kB Incidents <by> month".replace(" ", "") in words.replace(" ", "")
    assert "S1 is newer. · confidence 85 of 100" in words
    assert "met Names a date.It names May.not met Is short.<b>Long" in words
    assert "- **met** · Names a date.\n  - It names May.\n- **not met** · Is short.\n  - &lt;b>Long" in markdown
    assert "$0.0040 of it wasted: unused attempts, rejected plans and lost calls." in words
    assert "$0.5000 was still reserved when the report was written." in words
    assert not any("artifact:" in (value or "") for _, found in page.elements for value in found.values())
    assert "## Files\n\n- **by-month.png**: Incidents &lt;by> month (image/png, 48 kB)\n" in markdown
    assert "*S1 is newer.* (confidence 85 of 100)" in markdown
    assert "$0.0123 ($0.0040 of it wasted)" in markdown


def test_a_disclaimer_is_shown_below_the_answer() -> None:
    made = report(disclaimer="No <legal> advice.")

    page, markdown = Page(report_page(made)), report_markdown(made)
    assert "\n\n*No &lt;legal> advice.*\n\n" in markdown
    own = {"class": "disclaimer", "dir": "auto", "lang": "und"}
    assert ("p", own) in page.elements
    assert "No <legal> advice." in page.words
    assert ("p", own) not in Page(report_page(report())).elements


@pytest.mark.parametrize("notice", ["", "No model could write this."])
def test_the_notice_at_the_start_of_an_answer_is_shown_once(notice: str) -> None:
    answer = "**26 knots.** The rest follows."
    made = report(notice=notice, answer=f"*{notice}*\n\n{answer}" if notice else answer)

    assert answer in report_markdown(made)
    assert report_markdown(made).count(notice or "26 knots") == 1


def test_a_plan_is_drawn_from_left_to_right_by_dependency() -> None:
    drawing = plan_graph(report().subtasks)

    left = {name: float(x) for x, name in re.findall(r'<text x="(\d+)" [^>]*>(T\d) · ', drawing)}
    assert left["T1"] == left["T2"] < left["T3"]
    assert drawing.count("<path ") == 2


def test_the_timeline_has_a_lane_for_each_active_agent() -> None:
    drawing = timeline(trace())

    lanes = re.findall(r"</title>([^<]+)</text>", drawing)
    bars = re.findall(
        r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"[^>]*fill:var\(--(\w+)\)"><title>([^<]*)', drawing
    )
    running = next(bar for bar in bars if bar[3].startswith("supervisor: write"))
    failed = next(bar for bar in bars if bar[3].startswith("search"))
    assert lanes == ["session", "T1 Read"]
    assert float(running[0]) + float(running[1]) == pytest.approx(892, abs=0.2)
    assert failed[2:] == (
        "failure",
        "search: boilers · 2.0 s · failed · attempt 3 · A service that a tool needs is unavailable",
    )
    assert "never taken up" not in drawing


def test_amounts_and_errors_are_worded_for_people() -> None:
    assert [dollars(Decimal(each)) for each in ("0.00009", "0.0001", "1")] == ["< $0.0001", "$0.0001", "$1.00"]
    told = {
        "Invalid PlanDecision: x": "The plan decision is invalid: x",
        "Invalid SessionRequest: x": "The request is invalid: x",
    }
    assert {each: error_text(InvalidInput(each)) for each in told} == told
