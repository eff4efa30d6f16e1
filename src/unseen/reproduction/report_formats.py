"""A report's blocks as Markdown, and as one HTML page that needs no other file.

A block is (kind, content): h1, h2, p and list hold text with **bold** and `code`; table a Table; plot the name of one;
photos the qualitative figure.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unseen.reproduction.report_tables import Table

Block = tuple[str, Any]

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .82rem; }
th, td { padding: .2rem .5rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th.group { text-align: center; } th.first, td.first { border-left: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; border-left: 0; }
tbody tr:hover { background: var(--soft); }
code { font-size: .9em; background: var(--soft); padding: .1em .3em; border-radius: .25rem; }
.plot { display: block; max-width: 100%; background: #fff; border-radius: .5rem; margin: .75rem 0; }
.photo { display: flex; gap: 1rem; margin: 1rem 0; } .photo > img { border-radius: .5rem; align-self: start; }
.photo h3 { margin: 0 0 .4rem; } .answers { display: flex; flex-wrap: wrap; gap: .5rem 1.2rem; font-size: .82rem; }
.answers div { width: 9.5rem; } ol { padding-left: 1.2rem; margin: 0; }
@media (max-width: 40rem) { .photo { flex-direction: column; } }
"""


def as_markdown(blocks: Sequence[Block]) -> str:
    return "\n\n".join(_markdown(*block) for block in blocks) + "\n"


def _markdown(kind: str, content: Any) -> str:
    if kind in ("h1", "h2"):
        return f"{'#' * int(kind[1])} {content}"
    if kind == "list":
        return "\n".join(f"- {item}" for item in content)
    if kind == "plot":
        return f"![{content}](plots/{content}.svg)"
    if kind == "table":
        align = "|:---|" + "---:|" * (len(content.header) - 1)
        return "\n".join([_line(content.flat_header("<br>")), align, *map(_line, content.rows)])
    if kind == "photos":
        return "\n\n".join(_photo_table(photo) for photo in content)
    return content


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace(" *", " \\*") for cell in cells) + " |"


def _photo_table(photo: dict) -> str:
    """The labels that each model gave to one photo, best first; the right one in bold."""
    columns = [[_bold(label, photo["id"]) for label in answer["labels"]] for answer in photo["answers"]]
    header = [answer["label"] for answer in photo["answers"]]
    lines = [f"**{photo['name']}** ({photo['id']})", "", _line(header), "|" + ":---|" * len(header)]
    return "\n".join(lines + [_line(cells) for cells in zip(*columns, strict=False)])


def _bold(label: dict, true_id: str) -> str:
    return f"**{label['name']}**" if label["id"] == true_id else label["name"]


def as_page(blocks: Sequence[Block], plots: dict[str, bytes], with_photos: bool) -> str:
    body = "".join(_html(kind, content, plots, with_photos) for kind, content in blocks)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>unseen: the paper\'s tables</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body>\n{body}</body></html>\n"
    )


def _html(kind: str, content: Any, plots: dict[str, bytes], with_photos: bool) -> str:
    if kind in ("h1", "h2"):
        return f"<{kind}>{html.escape(content)}</{kind}>\n"
    if kind == "list":
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in content) + "</ul>\n"
    if kind == "plot":
        picture = base64.b64encode(plots[content]).decode()
        return f'<img class="plot" alt="{content}" src="data:image/svg+xml;base64,{picture}">\n'
    if kind == "table":
        return _html_table(content)
    if kind == "photos":
        return "".join(_photo_html(photo, with_photos) for photo in content)
    return f"<p>{_inline(content)}</p>\n"


def _html_table(table: Table) -> str:
    first, head, place = set(), "", 0  # columns that begin a group
    for name, count in table.groups:
        first |= {place} if name else set()
        head += f'<th class="group{" first" if name else ""}" colspan="{count}">{html.escape(name)}</th>'
        place += count
    named = any(name for name, _ in table.groups)

    def cells(tag: str, row: Sequence[str]) -> str:
        marks = [' class="first"' if i in first else "" for i in range(len(row))]
        return "".join(f"<{tag}{mark}>{html.escape(cell)}</{tag}>" for mark, cell in zip(marks, row, strict=True))

    head = f"<tr>{head}</tr>" if named else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    return (
        f'<div class="wide"><table><thead>{head}<tr>{cells("th", table.header)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _photo_html(photo: dict, with_photos: bool) -> str:
    picture = ""
    if with_photos and Path(photo["photo"]).exists():
        picture = f'<img alt="{html.escape(photo["name"])}" src="{_thumbnail(photo["photo"])}">'
    columns = ""
    for answer in photo["answers"]:
        labels = "".join(f"<li>{_inline(_bold(label, photo['id']))}</li>" for label in answer["labels"])
        columns += f"<div><b>{html.escape(answer['label'])}</b><ol>{labels}</ol></div>"
    title = f"<h3>{html.escape(photo['name'])}</h3>"
    return f'<section class="photo">{picture}<div>{title}<div class="answers">{columns}</div></div></section>\n'


def _thumbnail(path: str) -> str:
    from unseen.photos import read_photo

    image = read_photo(path)
    image.thumbnail((180, 180))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _inline(text: str) -> str:
    """Escaped text with **bold** and `code`."""
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(text))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", text)
