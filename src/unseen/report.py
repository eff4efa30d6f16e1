"""A report from saved results: tables and plots as Markdown, and as one HTML page that needs no other file.

Made again at any time without running anything: `unseen report WORK --out DIR`.
"""

from __future__ import annotations

import base64
import html
import io
import json
from pathlib import Path
from typing import Any

from unseen.errors import UnseenError
from unseen.recipes import ORDER
from unseen.run import write_atomically
from unseen.trends import trends

LEVELS = {
    "paper": "ImageNet-21K and ImageNet-1k photos, ResNet-50, GloVe 300-d: the paper's own setting.",
    "photos": "A folder of photos by class id, the built-in EfficientNet-Lite0 and built-in vectors. "
    "Other photos, another network and other vectors than the paper's: compare rows with rows, not with its numbers.",
    "embedded": "No photos: a fifth of the seen classes is hidden, and a hit is when a hidden class's known classifier "
    "is most like its own prediction among those of all hidden classes.",
}


def load_results(work: Path) -> dict[str, dict[str, Any]]:
    """Saved results by table, in the paper's order."""
    folder = work / "results"
    found = {name: folder / f"{name}.json" for name in (*ORDER, "analysis") if (folder / f"{name}.json").exists()}
    if not found:
        raise UnseenError(f"{folder}: no results here; `unseen reproduce all --out {work}` makes them")
    return {name: json.loads(path.read_text(encoding="utf-8")) for name, path in found.items()}


def write_report(work: Path, out: Path, with_photos: bool = True) -> dict[str, str]:
    """report.md with plots beside it, and report.html with everything inside; photos go into the HTML page only."""
    from unseen.plots import draw_plots

    results = load_results(work)
    plots = draw_plots(results, work)
    for name, svg in plots.items():
        write_atomically(out / "plots" / f"{name}.svg", svg)
    blocks = _blocks(results, plots)
    write_atomically(out / "report.md", "\n\n".join(_markdown(block) for block in blocks).encode() + b"\n")
    page = _page("".join(_html(block, plots, with_photos) for block in blocks))
    write_atomically(out / "report.html", page.encode())
    return {"markdown": str(out / "report.md"), "html": str(out / "report.html"), "plots": str(out / "plots")}


# A block is (kind, content): what Markdown and HTML have in common.


def _blocks(results: dict, plots: dict[str, bytes]) -> list[tuple[str, Any]]:
    tables = {name: result for name, result in results.items() if name != "analysis"}
    levels = sorted({result["level"] for result in tables.values()})
    blocks: list[tuple[str, Any]] = [("h1", "The paper's tables, run with unseen")]
    blocks += [("p", f"Level **{level}**: {LEVELS[level]}") for level in levels]
    blocks += [("p", _settings_line(next(iter(tables.values()))))]
    found = trends(results)
    if found:
        blocks += [("h2", "What came out"), ("list", found)]
    for name, result in tables.items():
        blocks += _table_blocks(name, result, plots)
    extra = [name for name in plots if name not in {"hop-weights", "hit-curves", "training"}]
    if extra:
        blocks.append(("h2", "Beyond the tables"))
        blocks += [("plot", name) for name in extra]
    return blocks


def _settings_line(result: dict) -> str:
    made = result["made_with"]
    level = made["level"]
    return (
        f"Hierarchy {level['graph']}, vectors {level['vectors']} (kin: {made['kin_vectors']}), network "
        f"{level['backbone']}, {made['epochs']} epochs of stage 1, {made['finetune_epochs']} epochs of stage 2 at "
        f"batch {made['finetune_batch']}. Columns named (paper) quote the publication."
    )


def _table_blocks(name: str, result: dict, plots: dict[str, bytes]) -> list[tuple[str, Any]]:
    blocks: list[tuple[str, Any]] = [
        ("h2", f"{result['title']} ({name})"),
        ("p", f"{result['paper']}. {result['shows']}"),
    ]
    blocks += [("table", table) for table in table_of(result)]
    if result["kind"] == "qualitative":
        blocks.append(("photos", result["photos"]))
    if "coverage" in result:
        blocks.append(("p", _coverage(result)))
    shown = {"unseen-classes": ("hit-curves", "training"), "hop-weights": ("hop-weights",)}.get(name, ())
    blocks += [("plot", plot) for plot in shown if plot in plots]
    blocks += [("list", [*result["notes"], f"Took {result['seconds']:,} s."])]
    return blocks


def table_of(result: dict) -> list[list[list[str]]]:
    """A result as tables of text, header first."""
    if result["kind"] == "qualitative":
        return []
    makers = {"scalability": lambda r: [_scalability(r)], "hop-weights": lambda r: [_hop_table(r)]}
    return makers.get(result["kind"], _hit_tables)(result)


def _hit_tables(result: dict) -> list[list[list[str]]]:
    """One table for each list of candidates: our image and class averages, and the paper's figures."""
    keys = ["hidden"] if result["level"] == "embedded" else result["candidates"]
    tables = []
    for key in keys:
        hits = ["hit@1", "hit@5"] if key == "hidden" else [f"hit@{k}" for k in result["hits"]]
        paper_key = result["candidates"][0] if key == "hidden" else key
        header = [key, *(f"{hit} (images)" for hit in hits)]
        header += [] if key == "hidden" else [f"{hit} (classes)" for hit in hits]
        header += [] if key == "hidden" else [f"{hit} (paper)" for hit in hits]
        rows = [header]
        for row in result["rows"]:
            measured, deviation = row.get("measured", {}).get(key, {}), row.get("deviation", {}).get(key, {})
            cells = [row["label"] + (" *" if row["ours"] else "")]
            for average in ("image",) if key == "hidden" else ("image", "class"):
                cells += [_figure(measured, deviation, average, hit) for hit in hits]
            if key != "hidden":
                cells += _published(row, paper_key, len(hits))
            rows.append(cells)
        tables.append(rows)
    return tables


def _figure(measured: dict, deviation: dict, average: str, hit: str) -> str:
    value = measured.get(average, {}).get(hit)
    if value is None:
        return "–"
    spread = deviation.get(average, {}).get(hit)
    return f"{value:.1f}" if spread is None else f"{value:.2f} ± {spread:.2f}"


def _published(row: dict, key: str, count: int) -> list[str]:
    values = row["published"].get(key)
    if values is None:
        return ["–"] * count
    spread = row.get("published_deviation", {}).get(key)
    return [f"{value:g}" if spread is None else f"{value:.2f} ± {spread[i]:.2f}" for i, value in enumerate(values)]


def _coverage(result: dict) -> str:
    if result["level"] == "embedded":
        return f"{result['coverage']['hidden']['classes']} hidden classes."
    parts = []
    for name, entry in result["coverage"].items():
        as_ = "" if entry["as"] == name else f" (as {entry['as']})"
        parts.append(
            f"{name}{as_}: {entry['images']:,} photos of {entry['classes']:,} classes; {entry['listed']:,} listed"
        )
    return "Coverage: " + "; ".join(parts) + ". Rows with * are not in the paper."


def _scalability(result: dict) -> list[list[str]]:
    rows = [["figure", "measured", "paper"]]
    for key, value in result["measured"].items():
        paper = result["published"].get(key)
        shown = f"{value:.3g}" if isinstance(value, float) else f"{value:,}"
        told = "–" if paper is None else f"{paper:.3g}" if isinstance(paper, float) else f"{paper:,}"
        rows.append([key.replace("_", " "), shown, told])
    return rows


def _hop_table(result: dict) -> list[list[str]]:
    row = result["rows"][0]
    rows = [["phase", "0 hops", "1", "2", "3", "4 or more"]]
    for phase, weights in row["measured"].items():
        rows.append([f"from {phase}", *(f"{weight:.3f}" for weight in weights)])
        rows.append([f"from {phase} (paper)", *(f"{weight:.3f}" for weight in row["published"].get(phase, []))])
    return rows


# -- Markdown and HTML ---------------------------------------------------------------------------------------------


def _markdown(block: tuple[str, Any]) -> str:
    kind, content = block
    if kind in ("h1", "h2"):
        return f"{'#' * int(kind[1])} {content}"
    if kind == "list":
        return "\n".join(f"- {item}" for item in content)
    if kind == "plot":
        return f"![{content}](plots/{content}.svg)"
    if kind == "table":
        lines = ["| " + " | ".join(row) + " |" for row in content]
        return "\n".join([lines[0], "|" + "---|" * len(content[0]), *lines[1:]])
    if kind == "photos":
        return "\n\n".join(_photo_table(photo) for photo in content) or "No photos at this level."
    return content


def _photo_table(photo: dict) -> str:
    """The labels that each model gave to one photo; the right one in bold."""
    columns = [[_bold(label, photo["id"]) for label in answer["labels"]] for answer in photo["answers"]]
    header = [answer["label"] for answer in photo["answers"]]
    lines = [f"**{photo['name']}** ({photo['id']})", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cells) + " |" for cells in zip(*columns, strict=False)]
    return "\n".join(lines)


def _bold(label: dict, true_id: str) -> str:
    return f"**{label['name']}**" if label["id"] == true_id else label["name"]


def _html(block: tuple[str, Any], plots: dict[str, bytes], with_photos: bool) -> str:
    kind, content = block
    if kind in ("h1", "h2"):
        return f"<{kind}>{html.escape(content)}</{kind}>\n"
    if kind == "list":
        return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in content) + "</ul>\n"
    if kind == "plot":
        picture = base64.b64encode(plots[content]).decode()
        return f'<img class="plot" alt="{content}" src="data:image/svg+xml;base64,{picture}">\n'
    if kind == "table":
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in content[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in content[1:]
        )
        return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n'
    if kind == "photos":
        return "".join(_photo_html(photo, with_photos) for photo in content)
    return f"<p>{_inline(content)}</p>\n"


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
    image.thumbnail((220, 220))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _inline(text: str) -> str:
    """Escaped text with **bold**."""
    parts = html.escape(text).split("**")
    return "".join(f"<b>{part}</b>" if i % 2 else part for i, part in enumerate(parts))


def _page(body: str) -> str:
    style = """
    :root { color-scheme: light dark; --line: #8884; }
    body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
    h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
    .wide { overflow-x: auto; }
    table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .85rem; }
    th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
    th:first-child, td:first-child { text-align: left; }
    .plot { max-width: 100%; background: #fff; border-radius: .5rem; margin: .5rem 0; }
    .photo { display: flex; flex-wrap: wrap; gap: 1rem; margin: 1rem 0; } .photo img { border-radius: .5rem; }
    .answers { display: flex; flex-wrap: wrap; gap: 1.5rem; font-size: .85rem; } ol { padding-left: 1.2rem; margin: 0; }
    """
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>unseen: the paper\'s tables</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body>\n{body}</body></html>\n"
    )
