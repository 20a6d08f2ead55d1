"""The report: one HTML page that needs no other file and no network, with the paper and ours side by side."""

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .result import path_of
from .study import Result, Study

NOT_RUN = "not run"

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1rem 4rem; max-width: 60rem; background: #fff; color: #16181d;
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1, h2 { line-height: 1.25; }
h2 { margin-top: 3rem; border-top: 1px solid #767b85; padding-top: 1rem; }
a { color: #00508f; }
code { font-size: .85em; }
blockquote { margin: 1rem 0; padding: .25rem 1rem; border-left: 4px solid #0072b2; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0;
  border-bottom: 1px solid #c4c8cf; }
tbody th { font-weight: 400; }
caption { text-align: left; padding-bottom: .3rem; color: #4a4f58; }
td.ours { font-weight: 600; }
.missing { color: #6b3a00; font-weight: 400; font-style: italic; font-size: 1rem; }
.quick { display: inline-block; border: 1px solid #8a4b00; color: #6b3a00; border-radius: .3rem;
  padding: 0 .4rem; font-size: .85rem; font-weight: 400; }
figure { margin: 1.5rem 0; }
.wide { overflow-x: auto; }
.wide img { width: 100%; min-width: 34rem; display: block; }
dl { font-size: .85rem; color: #333840; display: grid; grid-template-columns: auto 1fr; gap: .15rem .8rem; }
dt { font-weight: 600; }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 34rem) {
  thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; }
  tr { display: block; padding: .4rem 0; border-bottom: 1px solid #c4c8cf; }
  td, tbody th { display: block; border: 0; padding: 0; }
  td[data-label]::before { content: attr(data-label) ": "; color: #4a4f58; font-weight: 400; }
}
@media print {
  body { max-width: none; padding: 0; font-size: 10pt; }
  a { color: inherit; text-decoration: none; }
  h2 { break-after: avoid; }
  figure, tr, blockquote { break-inside: avoid; }
  .wide { overflow: visible; }
  .wide img { min-width: 0; }
}
"""


@dataclass(frozen=True)
class Section:
    """A study in the report: what was found, if anything, and its picture as SVG, if it has one."""

    study: Study
    result: Result | None
    svg: str | None


def page(sections: list[Section]) -> str:
    """The whole page."""
    body = "\n".join(_section(section) for section in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>cellwise: the paper's claims, measured again</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>The paper's claims, measured again</h1>
<p><em>Reasoning with Neural Cellular Automata</em> makes claims; each section below repeats one of them with
cellwise. Each table has what the paper says beside what was seen here. <strong>{NOT_RUN}</strong> means
that nobody has measured it yet; <span class="quick">quick</span> marks small versions for a laptop, whose
numbers say how things go rather than how they compare. Every number comes from a result file that its
command writes again, and this page is drawn from those files by <code>make report</code>.</p>
<nav><ol>
{_contents(sections)}
</ol></nav>
{body}
</body>
</html>
"""


def _contents(sections: list[Section]) -> str:
    return "\n".join(
        f'<li><a href="#{one.study.name}">{escape(one.study.title)}</a>{_mark(one.study, one.result)}</li>'
        for one in sections
    )


def _mark(study: Study, result: Result | None) -> str:
    if result is None:
        return f' <span class="missing">{NOT_RUN}</span>'
    left = len(study.missing(result))
    marks = ' <span class="quick">quick</span>' if result.scale == "quick" else ""
    jobs = len(study.jobs(result.settings))
    return marks + (f' <span class="missing">{left} of {jobs} jobs {NOT_RUN}</span>' if left else "")


def _section(section: Section) -> str:
    study, result = section.study, section.result
    head = f'<section id="{study.name}">\n<h2>{escape(study.title)}{_mark(study, result)}</h2>'
    claim = f"<blockquote><p>{escape(study.claim)}</p></blockquote>"
    claim += f"\n<p>{escape(study.here)}</p>" if study.here else ""
    if result is None:
        command = f"cellwise study run {study.name} --quick"
        how = f'<p><span class="missing">{NOT_RUN}</span>: <code>{command}</code></p>'
        return f"{head}\n{claim}\n{how}\n</section>"
    picture = "" if section.svg is None else _figure(study, section.svg)
    return f"{head}\n{claim}\n{_table(study, result)}\n{picture}\n{_provenance(study, result)}\n</section>"


def _table(study: Study, result: Result) -> str:
    rows = []
    for one in study.compare(result):
        note = f"<br><small>{escape(one.note)}</small>" if one.note else ""
        paper = "–" if one.paper is None else escape(one.paper)
        ours = f'<span class="missing">{NOT_RUN}</span>' if one.ours is None else escape(one.ours)
        rows.append(
            f'<tr><th scope="row">{escape(one.what)}{note}</th>'
            f'<td data-label="paper">{paper}</td><td class="ours" data-label="cellwise">{ours}</td></tr>'
        )
    head = (
        '<thead><tr><th scope="col"></th><th scope="col">paper</th><th scope="col">cellwise</th></tr></thead>'
    )
    return (
        f"<table><caption>{escape(result.data)}</caption>{head}\n<tbody>\n"
        + "\n".join(rows)
        + "\n</tbody></table>"
    )


def _figure(study: Study, svg: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<figure><div class="wide" tabindex="0" role="region" aria-label="figure, may scroll">'
        f'<img alt="{escape(study.alt)}" src="data:image/svg+xml;base64,{data}"></div></figure>'
    )


def _provenance(study: Study, result: Result) -> str:
    def every(name: str) -> str:
        return ", ".join(dict.fromkeys(str(getattr(one, name) or "unknown") for one in result.done))

    jobs = len(study.jobs(result.settings))
    versions = dict.fromkeys(
        f"cellwise {one.versions.get('cellwise')}, jax {one.versions.get('jax')}" for one in result.done
    )
    facts = {
        "command": f"<code>{escape(result.command)}</code>",
        "measured": escape(
            f"{len(result.done)} of {jobs} jobs, {sum(one.seconds for one in result.done):,.0f} s"
        ),
        "device": escape(every("device")),
        "date": escape(every("date")),
        "commit": escape(every("commit")),
        "versions": escape("; ".join(versions)),
        "file": f"<code>{escape(str(path_of(Path('results/studies'), study.name, result.scale)))}</code>",
    }
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts.items()) + "</dl>"
