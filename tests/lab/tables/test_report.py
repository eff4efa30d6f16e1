"""The report from hand-made results: what stands in it, and that it stands where it should."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest

from unseen.util.errors import UnseenError
from unseen_lab.tables.levels import LENGTHS, ORDER, load_recipe
from unseen_lab.tables.report import command, load_results, tables_of, write_report

pytest.importorskip("matplotlib")

MADE_WITH = {
    "level": {
        "name": "photos",
        "hierarchy": "paper",
        "vectors": "glove",
        "network": "efficientnet-lite0",
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
    groups = [name.split(" @")[0] for name in first.header[2:]]
    assert groups == ["images"] * 5 + ["classes"] * 5 + ["paper"] * 5
    rows = {row[0]: row for row in first.rows}
    ours, paper = ["15.0", "16.0", "17.0", "18.0", "19.0"], ["26.6", "40.7", "60.3", "72.3", "81.3"]
    assert rows["DGP"] == ["DGP", "300+3", *ours, *ours, *paper]
    assert rows["ConSE"][1] == "300"
    assert rows["structural *"][-5:] == ["–"] * 5  # not in the paper
    assert len(tables_of(hit_result("unseen-classes"))) == 3


def test_embedded_level_has_no_published_column():
    """Figures of different levels never stand in one table."""
    saved = hit_result("unseen-classes") | {"level": "embedded", "coverage": {"hidden": {"classes": 200}}}
    for row in saved["rows"]:
        row["measured"] = {"hidden": {"class": {"hit@1": 20.0, "hit@5": 50.0}}}
    (table,) = tables_of(saved)
    assert table.header == ["method", "epochs", "hidden classes @1", "hidden classes @5"]


@pytest.mark.slow
def test_report(work, tmp_path):
    written = write_report(work, tmp_path / "out")
    text = Path(written["markdown"]).read_text(encoding="utf-8")
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
    assert "**Left out.** No photos <here>." in text
    assert "**okapi**" in text and "a\\|b" in text and "/nowhere" not in text
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


@pytest.mark.parametrize("name", [name for name in ORDER if load_recipe(name).kind in ("hits", "seeds", "awa2")])
def test_published_numbers_stand_in_the_table(name):
    recipe, tables = load_recipe(name), tables_of(hit_result(name))
    assert len(tables) == len(recipe.candidates)
    for key, table in zip(recipe.candidates, tables, strict=True):
        for row, cells in zip(recipe.rows, table.rows, strict=True):
            if key in row.published:
                shown = [float(cell) for cell in cells[-len(recipe.hits) :]]
                assert shown == pytest.approx(row.published[key], abs=0.06)
