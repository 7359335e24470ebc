"""A report's page in a real browser: it requests nothing, runs nothing, and fits a phone, dark mode and paper."""

import io
import resource
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import pypdfium2
import pytest
from PIL import Image

from chargehand.contracts import Artifact, Claim, Report, Source, SubtaskRecord
from chargehand_cli.rendering.attachments import Attachments, attach_pictures
from chargehand_cli.rendering.page import report_page
from chargehand_cli.session_files import keep
from chargehand_plugins.report_formats.pdf import pdf
from tests.browser.chromium import Tab, accessibility_problems
from tests.loopback_http import Collector, collecting
from tests.security.hostile_reports import HOSTILE, READ, hostile_report, hostile_trace
from tests.unit.cli.reports import at, report, trace

pytestmark = pytest.mark.browser

_PAGES: Final = 20
"""Number of pages, each with every twentieth text; tests/security tries every text separately."""


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    """Listen at the address that hostile texts point to."""
    async with collecting() as collector:
        yield collector


async def test_a_report_page_makes_no_requests_and_runs_no_scripts(
    tab: Tab, collector: Collector, tmp_path: Path
) -> None:
    """Hostile text in a report and trace triggers neither a request nor a script."""
    links: set[str] = set()
    for number in range(_PAGES):
        text = "\n\n".join(HOSTILE[number::_PAGES]).replace("collector.example", collector.host)
        page = keep(tmp_path / str(number), hostile_report(text), hostile_trace(text)).page
        await tab.page.goto(page.as_uri())
        found: list[str] = await tab.page.evaluate("[...document.querySelectorAll('[href]')].map(a => a.href)")
        links |= {link.removeprefix(page.as_uri()).partition("#:~:text=")[0] for link in found}

    asked = [address for address in tab.requests if not address.endswith("/report.html")]
    assert asked == []
    assert len(tab.requests) == _PAGES
    assert collector.connections == 0
    assert tab.console == []
    assert links == {READ, "#S1", "#S2"}


async def test_hostile_text_does_run_on_an_unprotected_page(tab: Tab, collector: Collector, tmp_path: Path) -> None:
    """This control shows that the test above can fail."""
    bare = tmp_path / "bare.html"
    hostile = "\n".join(text for text in HOSTILE if "meta" not in text).replace("collector.example", collector.host)
    bare.write_text(hostile, encoding="utf-8")

    await tab.page.goto(bare.as_uri(), wait_until="commit")
    await tab.page.wait_for_load_state()

    assert [address for address in tab.requests if collector.host in address]
    assert collector.connections > 0
    assert "log: ran" in tab.console


_PIXEL: Final = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_URL: Final = "https://example.org/" + "path/" * 60
_ANSWER: Final = f"""\
# {"Donaudampfschifffahrtsgesellschaft" * 5}

<{_URL}> `{"x" * 300}` [S1] مرحبا بالعالم

| {" | ".join("column" for _ in range(20))} |
|{"---|" * 20}
| {" | ".join("words and words" for _ in range(20))} |

    {"code " * 100}

{"".join(f"{'  ' * level}- level {level}" + chr(10) for level in range(12))}
"""
_MADE: Final = Artifact(
    uri="artifact:1/chart.png", name="chart.png", media_type="image/png", bytes=len(_PIXEL), title="A chart"
)


def _long_report() -> Report:
    subtasks = tuple(
        SubtaskRecord(
            id=f"T{number}", agent="agent-" * 8, instruction=f"Find {_URL} and tell of it.", state="success",
            depends_on=("T1",) if number > 1 else (), started_at=at(0), ended_at=at(9),
        )
        for number in range(1, 31)
    )  # fmt: skip
    sources = tuple(
        Source(ref=f"{_URL}{number}", url=f"{_URL}{number}", title="t" * 200, quote="w" * 900) for number in range(40)
    )
    return report(goal="w" * 300, answer=_ANSWER, language="de", subtasks=subtasks, sources=sources, artifacts=(_MADE,))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "report.html"
    attachments = Attachments(attach_pictures((_MADE,), lambda _: _PIXEL))
    file.write_text(report_page(_long_report(), trace(), attachments), encoding="utf-8")
    return file


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
async def test_a_report_page_fits_its_window(tab: Tab, page: Path, width: int, scheme: str) -> None:
    """It fits phone and desktop widths, passes axe and makes no other request."""
    await tab.page.emulate_media(color_scheme=scheme)
    await tab.page.set_viewport_size({"width": width, "height": 800})
    await tab.page.goto(page.as_uri())

    found: Any = await tab.page.evaluate(
        "[document.documentElement.scrollWidth, document.images[0].naturalWidth, document.documentElement.lang]"
    )
    assert found == [width, 1, "de"]
    assert await accessibility_problems(tab.page) == []
    assert [address for address in tab.requests if not address.startswith(("file:", "data:"))] == []
    assert tab.console == []


async def test_a_printed_report_starts_with_the_answer_and_sources(tab: Tab, tmp_path: Path) -> None:
    """Details follow on a new page; collapsed sections stay collapsed unless the reader opened them."""
    text = report_page(report(claims=(Claim(text="Folded on the screen."),)), trace())
    await tab.page.goto(_keep(tmp_path, text))

    written = pdf(text)
    printed = [_pages(await tab.page.pdf(format="A4")), _pages(written)]

    with pypdfium2.PdfDocument(io.BytesIO(written)) as opened:
        assert opened.is_tagged()

    first = ("Answer", "Notfoundornotdone", "Contradictions", "Sources")
    details = ("Claims", "Plan", "Timeline", "Usage", "Limits", "Aboutthissession")
    for front, *behind in printed:
        answer = front[front.index("Answer") :]  # the header above has a fact of the name "Claims"
        assert [name for name in (*first, *details) if name in answer] == list(first)
        assert behind[0].startswith("Details")
        assert [name for name in details if name in "".join(behind)] == list(details)
        assert "Foldedonthescreen" not in "".join([front, *behind])
    await tab.page.get_by_text("1 claim:").click()
    assert "Foldedonthescreen." in "".join(_pages(await tab.page.pdf(format="A4")))


async def test_svg_drawings_appear_on_the_page_and_in_the_pdf(tab: Tab, tmp_path: Path) -> None:
    """The browser's own PDF has it too."""
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" width="90" height="40"><text x="2" y="30">drawn</text></svg>'
    made = Artifact(uri="artifact:1/chart.svg", name="chart.svg", media_type="image/svg+xml", bytes=len(drawing))
    text = report_page(report(artifacts=(made,)), attachments=Attachments(attach_pictures((made,), lambda _: drawing)))
    await tab.page.goto(_keep(tmp_path, text))

    assert await tab.page.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]") == [90, 40]
    assert tab.console == []
    assert ["drawn" in "".join(_pages(each)) for each in (await tab.page.pdf(format="A4"), pdf(text))] == [True, True]


def test_decompression_bombs_are_left_out_of_the_pdf() -> None:
    """A 16,000 by 16,000 picture, also in a drawing, is replaced by its name; text that looks like CSS stays."""
    bomb = io.BytesIO()
    Image.new("1", (16_000, 16_000)).save(bomb, "PNG")
    picture = f"data:image/png;base64,{b64encode(bomb.getvalue()).decode()}"
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg"><image width="9" height="9" href="{picture}"/></svg>'
    within = f"data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()}"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    written = pdf(f'<p>var(--none)</p><img alt="a boat" src="{picture}"><img src="{within}">')

    assert [text in _pages(written)[0] for text in ("var(--none)", "aboat")] == [True, True]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000


async def test_a_long_goal_is_clamped_on_screen_but_printed_whole(tab: Tab, tmp_path: Path) -> None:
    """The goal takes less than a quarter of a phone screen and can be scrolled."""
    await tab.page.set_viewport_size({"width": 390, "height": 844})
    await tab.page.goto(_keep(tmp_path, report_page(report(goal="How safe are our boilers? " * 140 + "Thatisall."))))

    goal = tab.page.locator("h1")
    assert (await goal.bounding_box())["height"] < 844 / 4
    assert await goal.evaluate("each => [each.tabIndex, each.scrollHeight > each.clientHeight]") == [0, True]
    assert "Thatisall." in "".join(_pages(await tab.page.pdf(format="A4")))


def _keep(folder: Path, page: str) -> str:
    """Write a page into a file, and return its address."""
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    return file.as_uri()


def _pages(document: bytes) -> list[str]:
    """Return the text of each page of a PDF, without white space, which depends on where its lines end."""
    with pypdfium2.PdfDocument(io.BytesIO(document)) as opened:
        texts = [cast("Any", page.get_textpage()).get_text_range() for page in opened]
    return ["".join(text.split()) for text in texts]
