"""Tables of README are those of the results, cell by cell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from split_seen import split_seen  # noqa: E402
from unseen_lab.tables.compare import paired_tests, table  # noqa: E402
from unseen_lab.tables.ranks import read_ranks  # noqa: E402
from unseen_lab.tables.table import Table  # noqa: E402
from write_tables import TABLES, Choice, choose, fill, tables_of  # noqa: E402

PAGE = """# Results

| other | x |
|:---|---:|
| a | 1 |

| method | epochs | @1 | seconds |
|:---|---:|---:|---:|
| dgp | 300 | 38.9 | 61.0 |
| kin | – | 44.0 | 3.1 |
| network | – | 0.0 | 1.0 |
"""


def test_cells_are_taken_as_they_are_and_the_best_is_bold(tmp_path, monkeypatch):
    (tmp_path / "results.md").write_text(PAGE, encoding="utf-8")
    choice = Choice("results.md", ("method", "@1"), plain=("method",), without=("network",))
    made = choose(choice, tmp_path)
    assert made.splitlines() == ["| method | @1 |", "|:---|---:|", "| dgp | 38.9 |", "| kin | **44.0** |"]
    monkeypatch.setitem(TABLES, "made-up", choice)
    for old in ("", "| method | @1 |\n|:---|---:|\n| dgp | 12.3 |\n"):
        page = fill(f"before\n\n<!-- table: made-up -->\n{old}\nafter\n", tmp_path)
        assert page == f"before\n\n<!-- table: made-up -->\n{made}\n\nafter\n"


def test_a_sentence_is_that_of_its_page(tmp_path):
    (tmp_path / "docs" / "results").mkdir(parents=True)
    (tmp_path / "docs" / "results" / "sources.md").write_text("# Page\n\n<!-- sources: one -->\nnew\nlines\n\nmore\n")
    page = fill("before\n\n<!-- sources: one -->\nstale\n\nafter\n", tmp_path)
    assert page == "before\n\n<!-- sources: one -->\nnew\nlines\n\nafter\n"


def test_the_pages_tables_are_the_results():
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "write_tables.py"), "--check"], capture_output=True)
    assert done.returncode == 0, done.stdout.decode()


def test_every_chosen_page_has_its_columns():
    for choice in TABLES.values():
        tables = tables_of((ROOT / choice.page).read_text(encoding="utf-8"))
        assert any(set(choice.columns) <= set(table[0]) for table in tables)


def test_seen_photos_are_split_by_name(tmp_path):
    for name in ("unseen/a/1.jpg", "seen-train/b/g3.jpg", "seen-train/b/g1.jpg", "seen-train/c/x.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name).write_bytes(name.encode())
    counts = split_seen(tmp_path / "photos", tmp_path / "out", "g[34].jpg")
    assert counts == {"seen-train": 2, "seen-val": 1}
    assert (tmp_path / "out/seen-val/b/g3.jpg").read_bytes() == b"seen-train/b/g3.jpg"
    assert not (tmp_path / "out/seen-train/b/g3.jpg").exists() and (tmp_path / "out/unseen/a/1.jpg").exists()


def as_cells(table: Table) -> list[list[str]]:
    return [list(table.header), *map(list, table.rows)]


def test_the_comparison_can_be_computed_from_its_ranks():
    """Every figure of docs/results/comparison.md but AUSUC, and every test on it."""
    page = ROOT / "docs" / "results" / "comparison.md"
    ranks = page.with_name("comparison-ranks.csv.gz")
    rows = read_ranks(ranks)
    measured, hit1, hit5 = tables_of(page.read_text(encoding="utf-8"))[:3]
    ours = as_cells(table(rows))
    assert ours[0] == measured[0] and len(ours) == len(measured) > 8
    skip = ours[0].index("AUSUC")
    for line, published in zip(ours, measured, strict=True):
        assert line[:skip] + line[skip + 1 :] == published[:skip] + published[skip + 1 :]
    assert as_cells(paired_tests(rows)) == hit1 and as_cells(paired_tests(rows, "hit@5")) == hit5
    assert ranks.stat().st_size < 500_000
