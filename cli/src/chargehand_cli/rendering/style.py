"""The page's style sheet: inline, for light and dark, with nothing to load."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2330; --soft: #5b6675; --line: #dfe3ea; --accent: #2f5bd0;
  --success: #1f8a4c; --partial: #b7791f; --failure: #c53030; --escalation: #8146c9; --waiting: #8a94a3;
  --running: #2f5bd0; --turn: #4c7df0; --tool: #19a597; --track: #e8ecf2; --quote: #f1f4f8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12161d; --card: #1a202a; --ink: #e6eaf0; --soft: #9aa5b4; --line: #2c3542; --accent: #8aaefc;
    --success: #4cc47f; --partial: #e0a84a; --failure: #f07575; --escalation: #b58af0; --waiting: #7c8797;
    --running: #8aaefc; --turn: #6f9bff; --tool: #35c4b5; --track: #262e3a; --quote: #212936;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink); line-height: 1.55;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 .75rem; overflow-wrap: anywhere; white-space: pre-line; }
.eyebrow { color: var(--soft); font-size: .85rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
.facts { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 0 0 1.5rem; list-style: none; }
.facts li {
  background: var(--card); border: 1px solid var(--line); border-radius: 999px;
  padding: .15rem .75rem; font-size: .875rem;
}
.facts .completed { border-color: var(--success); color: var(--success); }
.facts .stopped { border-color: var(--partial); color: var(--partial); }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 1.25rem 1.5rem; margin: 0 0 1.25rem;
}
section > h2 {
  font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; color: var(--soft); margin: 0 0 .9rem;
}
.answer { overflow-wrap: break-word; }
.answer > :first-child { margin-top: 0; } .answer > :last-child { margin-bottom: 0; }
.answer h1 { font-size: 1.35rem; } .answer h2 { font-size: 1.15rem; } .answer h3 { font-size: 1rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } tfoot td { font-weight: 600; border-bottom: 0; }
.number { text-align: right; white-space: nowrap; }
a { color: var(--accent); text-underline-offset: 2px; }
a.cite { text-decoration: none; font-size: .8em; vertical-align: .15em; font-weight: 600; padding: 0 .1em; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .88em; }
code { background: var(--quote); border-radius: 4px; padding: .1em .3em; }
pre { background: var(--quote); border-radius: 8px; padding: .8rem 1rem; overflow-x: auto; }
pre code { background: none; padding: 0; }
blockquote {
  margin: .4rem 0; padding: .35rem .9rem; border-left: 3px solid var(--line); border-radius: 0 6px 6px 0;
  background: var(--quote); color: var(--ink);
}
ol.sources { list-style: none; margin: 0; padding: 0; }
ol.sources > li { padding: .7rem 0; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
ol.sources > li:first-child { padding-top: 0; } ol.sources > li:last-child { border-bottom: 0; padding-bottom: 0; }
ol.sources > li:target { outline: 2px solid var(--accent); outline-offset: 6px; border-radius: 4px; }
ol.sources blockquote { white-space: pre-line; font-size: .92rem; }
.label { font-weight: 700; color: var(--accent); margin-right: .5rem; }
.soft { color: var(--soft); font-size: .875rem; }
ul.plain { margin: 0; padding-left: 1.2rem; } ul.plain li { margin: .25rem 0; }
details { border-top: 1px solid var(--line); padding: .5rem 0; } details:first-of-type { margin-top: 1rem; }
summary { cursor: pointer; } summary .state { float: right; font-size: .85rem; }
.state-success { color: var(--success); } .state-partial { color: var(--partial); }
.state-failure, .state-skipped { color: var(--failure); } .state-escalation { color: var(--escalation); }
.state-waiting { color: var(--waiting); } .state-running { color: var(--running); }
.meters { display: grid; grid-template-columns: max-content 1fr max-content; gap: .45rem 1rem; align-items: center; }
.meters .bar { height: .5rem; border-radius: 999px; background: var(--track); overflow: hidden; }
.meters .bar span { display: block; height: 100%; background: var(--accent); border-radius: 999px; }
.key span { display: inline-block; width: .75rem; height: .75rem; border-radius: 3px; margin: 0 .35rem -.05rem .9rem; }
.key span:first-child { margin-left: 0; }
svg { display: block; max-width: 100%; height: auto; }
svg text { fill: var(--ink); font-family: inherit; } svg text.small { fill: var(--soft); }
footer { color: var(--soft); font-size: .8rem; text-align: center; margin-top: 2rem; }
@media print { body { background: none; } section { break-inside: avoid; } }
"""
