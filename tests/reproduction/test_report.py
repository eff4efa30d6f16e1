"""The report from hand-made results: what stands in it, and that it stands where it should."""

from __future__ import annotations

import copy
import json
import os
import re
from pathlib import Path

import pytest

from unseen.errors import UnseenError
from unseen.reproduction.levels import LENGTHS
from unseen.reproduction.recipe import ORDER, load_recipe
from unseen.reproduction.report import _short, command, load_results, write_report
from unseen.reproduction.report_formats import as_markdown, as_page
from unseen.reproduction.report_tables import Table, tables_of

pytest.importorskip("matplotlib")

MADE_WITH = {
    "level": {
        "name": "photos",
        "graph": "paper",
        "vectors": "glove",
        "backbone": "efficientnet-lite0",
        "unseen": "photos/unseen",
        "seen_train": "photos/seen-train",
        "sampled": None,
    },
    "epochs": 3000,
    "study_epochs": 300,
    "gcnz_epochs": 100,
    "finetune_epochs": 3,
    "finetune_batch": 16,
    "finetune_rate": None,
    "finetune_scale": 3.0,
    "finetune_freeze": -1,
    "finetune_studies": False,
    "kin_vectors": "glove+text",
}


def hits(value: float, ks=(1, 2, 5, 10, 20)) -> dict:
    return {average: {f"hit@{k}": value + i for i, k in enumerate(ks)} for average in ("image", "class")}


def result(name: str, **body) -> dict:
    recipe = load_recipe(name)
    made = {"unseen": "0.1", "torch": "2", "at": "2026-01-01"}
    about = {key: getattr(recipe, key) for key in ("title", "paper", "shows", "kind")}
    facts = {
        "table": name,
        "level": "photos",
        "notes": ["A note."],
        "made_with": MADE_WITH,
        "made": made,
        "seconds": 60,
        "trainings": {"dgp-1": 90.0, "sgcn-1": 30.0},
    }
    return about | facts | body


def hit_result(name: str) -> dict:
    recipe, rows = load_recipe(name), []
    for i, row in enumerate(recipe.rows):
        entry = {"label": row.label, "ours": row.ours, "published": row.published}
        if row.method:
            entry |= {"method": row.method, "epochs": 300, "finetune_epochs": 3 * row.finetune,
                      "measured": {key: hits(10.0 + i, recipe.hits) for key in recipe.candidates}}  # fmt: skip
        rows.append(entry)
    coverage = {key: {"listed": 1549, "classes": 310, "images": 1400, "as": key} for key in recipe.candidates}
    return result(name, rows=rows, coverage=coverage, hits=list(recipe.hits), candidates=list(recipe.candidates))


@pytest.fixture
def work(tmp_path) -> Path:
    folder = tmp_path / "work"
    (folder / "results").mkdir(parents=True)
    save(folder, hit_result("unseen-classes"))
    weights = {"descendants": [0.3, 0.4, 0.2, 0.06, 0.04], "ancestors": [0.5, 0.3, 0.1, 0.06, 0.04]}
    published = load_recipe("hop-weights").rows[0].published
    save(folder, result("hop-weights", rows=[{"label": "DGP", "measured": weights, "published": published}]))
    measured = {"weights_sgcn": 4810752, "density_sparse": 9.32e-5}
    save(folder, result("scalability", published=load_recipe("scalability").published, measured=measured))
    answers = [{"label": "DGP", "labels": [{"id": "n1", "name": "okapi"}, {"id": "n2", "name": "a|b"}]}]
    photo = {"photo": "/nowhere/okapi.jpg", "id": "n1", "name": "okapi", "answers": answers}
    save(folder, result("qualitative", photos=[photo]))
    save(folder, result("seen-classes", rows=[], coverage={}, hits=[1], candidates=[], left_out="No photos <here>."))
    return folder


def save(folder: Path, saved: dict) -> None:
    (folder / "results" / f"{saved.get('table', 'analysis')}.json").write_text(json.dumps(saved), encoding="utf-8")


def test_figures_stand_beside_the_published_ones():
    first, *_ = tables_of(hit_result("unseen-classes"))
    assert first.groups == [("", 2), ("images", 5), ("classes", 5), ("paper", 5)]
    rows = {row[0]: row for row in first.rows}
    ours, paper = ["15.0", "16.0", "17.0", "18.0", "19.0"], ["26.6", "40.7", "60.3", "72.3", "81.3"]
    assert rows["DGP"] == ["DGP", "300+3", *ours, *ours, *paper]
    assert rows["ConSE"][1] == "300"
    assert rows["structural *"][-5:] == ["–"] * 5  # not in the paper
    assert len(tables_of(hit_result("unseen-classes"))) == 3


def test_deviations_are_shown():
    saved = hit_result("robustness")
    for row in saved["rows"]:
        row["deviation"] = {key: hits(0.25, [1, 2]) for key in saved["candidates"]}
        row["published_deviation"] = {"2-hops": [0.03, 0.03], "all": [0.01, 0.01]}
    assert "10.00 ± 0.25" in tables_of(saved)[0].rows[0]
    assert "26.17 ± 0.03" in tables_of(saved)[0].rows[0]


def test_embedded_level_has_no_published_column():
    """Figures of different levels never stand in one table."""
    saved = hit_result("unseen-classes") | {"level": "embedded", "coverage": {"hidden": {"classes": 200}}}
    for row in saved["rows"]:
        row["measured"] = {"hidden": {"class": {"hit@1": 20.0, "hit@5": 50.0}}}
    (table,) = tables_of(saved)
    assert table.header == ["method", "epochs", "@1", "@5"]


@pytest.mark.slow
def test_report(work, tmp_path):
    written = write_report(work, tmp_path / "out")
    text, page = (Path(written[kind]).read_text(encoding="utf-8") for kind in ("markdown", "html"))
    for part in (
        "Level **photos**",
        "3,000 epochs of stage 1 (GCNZ 100, comparisons of variants 300), 3 of stage 2",
        "The paper trains for 3,000 and 20",
        "1,400 photos of 310 classes, 1,549 listed",
        "A note.",
        "Fewer epochs of stage 1 than the paper's 3,000: ",
        "Epochs of stage 2: 3, where the paper has 20.",
        "unseen 0.1",
        "2 trainings, which took 2 minutes in all",  # each counted once, though several tables use it
        "4,810,752",
        "9.32e-5",
    ):
        assert part in text, part
    assert "**Not run: generalised, ablation" in text
    assert "**Left out.** No photos <here>." in text and "No photos &lt;here&gt;." in page
    assert "**okapi**" in text and "a\\|b" in text and "<b>okapi</b>" in page
    assert "/nowhere" not in text and "/nowhere" not in page
    assert "unseen reproduce all --photos DIR" in text
    for name in re.findall(r"!\[.*\]\((.*)\)", text):
        assert (tmp_path / "out" / name).exists()
    widths = {}
    for line in text.splitlines():  # every table has as many cells in each row as in its head
        if line.startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", line))
            assert widths.setdefault("now", cells) == cells, line
        else:
            widths.clear()


def test_page_needs_no_other_file(work, tmp_path):
    write_report(work, tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    assert "data:image/svg+xml" in page


def test_other_settings_are_left_out(work):
    other = hit_result("ablation")
    other["made_with"] = copy.deepcopy(MADE_WITH) | {"epochs": 10}
    save(work, other)
    os.utime(work / "results" / "ablation.json", (0, 0))
    results, left_out = load_results(work)
    assert left_out == ["ablation"] and "unseen-classes" in results
    os.utime(work / "results" / "ablation.json", None)  # now it is the latest
    later = max(path.stat().st_mtime_ns for path in (work / "results").iterdir()) + 10**9
    os.utime(work / "results" / "ablation.json", ns=(later, later))
    assert list(load_results(work)[0]) == ["ablation"]


def test_a_damaged_result_is_named(work):
    place = work / "results" / "unseen-classes.json"
    for content in (place.read_text()[:100], "{}", "[]"):
        place.write_text(content)
        with pytest.raises(UnseenError, match=r"unseen-classes.json: is damaged; delete it"):
            load_results(work)
    place.unlink()
    place.mkdir()
    with pytest.raises(UnseenError, match=r"unseen-classes.json: is damaged; delete it"):
        load_results(work)


def test_no_results_are_told(tmp_path):
    with pytest.raises(UnseenError, match="unseen reproduce all"):
        load_results(tmp_path)


def test_command():
    assert command(MADE_WITH) == "unseen reproduce all --photos DIR"
    assert LENGTHS["photos"].epochs == 3000
    quick = copy.deepcopy(MADE_WITH) | {"epochs": 5}
    assert command(quick) == "unseen reproduce all --photos DIR --epochs 5"
    quick["level"] |= {"name": "embedded", "unseen": None, "seen_train": None, "sampled": 48, "vectors": "my/words.txt"}
    assert command(quick) == (
        "unseen reproduce all --quick --epochs 5 --gcnz-epochs 100 --study-epochs 300 --vectors words.txt"
    )


@pytest.mark.slow
def test_plots_have_what_they_show(work, tmp_path):
    curve = {"seen": [80, 50, 0], "unseen": [0, 30, 40], "ausuc": 0.21}
    save(work, {"made_with": MADE_WITH,
                "training": {"DGP": {"seconds": 40, "epochs": 300, "losses": [[1, 0.5], [300, 0.3]]},
                             "kin": {"seconds": 2, "epochs": None, "losses": []}},
                "trade_off": {"DGP": curve}, "by_distance": {"DGP": {"1": {"hit@1": 20, "classes": 4}}}})  # fmt: skip
    write_report(work, tmp_path / "out")
    names = {path.stem for path in (tmp_path / "out" / "plots").iterdir()}
    assert names == {"hit-curves", "training", "hop-weights", "trade-off", "by-distance", "speed"}
    for path in (tmp_path / "out" / "plots").iterdir():
        assert path.read_bytes().startswith(b"<?xml")


def test_rendering():
    table = Table([("", 1), ("hops", 2)], ["phase", "0", "1"], [["a *", "1", "2"]])
    assert as_markdown([("table", table)]).splitlines()[0] == "| phase | hops<br>0 | hops<br>1 |"
    page = as_page([("table", table), ("p", "**b** `c` <d>")], {}, False)
    assert 'colspan="2">hops' in page and "<b>b</b> <code>c</code> &lt;d&gt;" in page


@pytest.mark.parametrize("name", [name for name in ORDER if load_recipe(name).kind in ("hits", "seeds", "awa2")])
def test_published_numbers_stand_in_the_table(name):
    recipe, tables = load_recipe(name), tables_of(hit_result(name))
    assert len(tables) == len(recipe.candidates)
    for key, table in zip(recipe.candidates, tables, strict=True):
        for row, cells in zip(recipe.rows, table.rows, strict=True):
            if key in row.published:
                shown = [float(cell) for cell in cells[-len(recipe.hits) :]]
                assert shown == pytest.approx(row.published[key], abs=0.06)


def test_every_row_that_was_trained_for_less_is_named():
    """Also where another row of the table was trained as long as the paper's."""
    rows = [
        {"label": "GCNZ", "epochs": 100, "finetune_epochs": 0, "finetuned_in_paper": False},
        {"label": "SGCN", "epochs": 3000, "finetune_epochs": 3, "finetuned_in_paper": True},
        {"label": "with", "epochs": 3000, "finetune_epochs": 0, "finetuned_in_paper": True},
        {"label": "kin", "epochs": None, "finetune_epochs": 0, "finetuned_in_paper": False},
    ]
    assert _short({"rows": rows}) == [
        "Fewer epochs of stage 1 than the paper's 3,000: GCNZ 100.",
        "Epochs of stage 2: 3, where the paper has 20.",
        "Without stage 2, which the paper's figures are after: with.",
    ]
    assert _short({"rows": rows[3:]}) == []
