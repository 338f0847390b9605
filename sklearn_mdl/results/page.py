"""Plain HTML: a page, sections, tables and pictures, with every text escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template

DPI = 150  # of pictures

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff;
  max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.05rem; }
h1, h2, h3, p, li, summary { overflow-wrap: anywhere; }
nav ul { columns: 16rem; padding-left: 1.2rem; }
.scroll { overflow-x: auto; max-height: 40rem; border: 1px solid #ddd; margin: 1rem 0;
  width: fit-content; max-width: 100%; }
table { border-collapse: separate; border-spacing: 0; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap; }
th { background: #f2f2f2; font-weight: 600; }
thead th { position: sticky; top: 0; z-index: 1; }
th[scope=row], thead th:first-child { text-align: left; position: sticky; left: 0; }
thead th:first-child { z-index: 2; }
th[scope=row] { max-width: min(16rem, 40vw); overflow: hidden;
  text-overflow: ellipsis; }
tbody tr:nth-child(even) td { background: #fafafa; }
td.text { text-align: left; }
td.wrapped { text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 12rem; }
td b { color: #00507d; }
.picture { overflow-x: auto; margin: 1rem 0; }
img { max-width: max(100%, 34rem); height: auto; display: block; }
pre { background: #f6f6f6; padding: .75rem; overflow-x: auto; font-size: .8125rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; }
.note { color: #555; }
</style>
</head>
<body>
$body
</body>
</html>
""")


class Bold(str):
    """Text that is set bold."""


class Words(str):
    """Text that stands on the left of its cell."""


class Wrapped(str):
    """Text that may run over several lines of its cell."""


def page(title: str, sections: Sequence[tuple[str, str]], lead: str) -> str:
    """Return a whole page.

    Parameters
    ----------
    title : str
        Text.
    sections : sequence of (str, str)
        Headings as text, and what follows them as HTML; the page lists them first.
    lead : str
        HTML that stands before them.
    """
    links = "".join(
        f'<li><a href="#s{i}">{escape(heading)}</a></li>'
        for i, (heading, _) in enumerate(sections)
    )
    parts = [f"<h1>{escape(title)}</h1>", lead, f"<nav><ul>{links}</ul></nav>"]
    parts += [
        f'<section id="s{i}"><h2>{escape(heading)}</h2>\n{html}</section>'
        for i, (heading, html) in enumerate(sections)
    ]
    return _PAGE.substitute(title=escape(title), body="\n".join(parts))


def paragraph(text: str, *, note: bool = False) -> str:
    """Return text as a paragraph."""
    kind = ' class="note"' if note else ""
    return f"<p{kind}>{escape(text)}</p>\n"


def heading(text: str) -> str:
    """Return text as the heading of a part of a section."""
    return f"<h3>{escape(text)}</h3>\n"


def preformatted(text: str) -> str:
    """Return text with its lines as they are."""
    return f"<pre>{escape(text)}</pre>\n"


def folded(title: str, html: str) -> str:
    """Return HTML that shows when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>\n{html}</details>\n"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, words: bool = False
) -> str:
    """Return a table whose first column names the rows.

    Parameters
    ----------
    head : sequence of str
    rows : iterable of sequences of str
        Numbers that are :class:`Bold` are set so.
    words : bool
        Whether the columns are words, which stand on the left.
    """
    titles = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    inner = "\n".join(
        f"<tr>{''.join(_cell(text, i, words) for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{titles}</tr></thead>\n'
        f"<tbody>{inner}</tbody></table></div>\n"
    )


def _cell(text: str, column: int, words: bool) -> str:
    if column == 0:  # long names are cut, and shown whole to those who point at them
        return f'<th scope="row" title="{escape(text)}">{escape(text)}</th>'
    shown = f"<b>{escape(text)}</b>" if isinstance(text, Bold) else escape(text)
    words = words or isinstance(text, Words)
    kind = "wrapped" if isinstance(text, Wrapped) else "text" if words else None
    return f'<td class="{kind}">{shown}</td>' if kind else f"<td>{shown}</td>"


def picture(path: Path, text: str) -> str:
    """Return a PNG file as part of the page."""
    content = path.read_bytes()
    width = int.from_bytes(content[16:20], "big") * 96 // DPI  # as the header says
    data = base64.b64encode(content).decode()
    source = f'width="{width}" src="data:image/png;base64,{data}"'
    return f'<div class="picture"><img alt="{escape(text)}" {source}></div>\n'
