"""One table for all methods, on the same photos and candidates."""

from __future__ import annotations

import numpy as np
import pytest

from support.command_line import run_command
from support.own_methods import forget
from support.tables import small_trainings
from unseen.methods import method_names
from unseen.util.errors import UnseenError
from unseen_lab.data.authors import AUTHORS_LISTS
from unseen_lab.tables.compare import (
    HITS,
    TESTED,
    compare,
    named_verdicts,
    paired_tests,
    table,
    verdict_table,
)
from unseen_lab.tables.levels import parse_method

pytestmark = [pytest.mark.usefixtures("small_lists"), pytest.mark.slow]


@pytest.fixture(scope="module")
def rows(tmp_path_factory, level, small_lists):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unseen.training.calibrate.HIDINGS", (1, 1))
        methods = list(map(parse_method, method_names()))
        return compare(small_trainings(tmp_path_factory.mktemp("compare"), level), methods, [level.network])


def test_every_method_has_a_row(rows):
    assert [row["method"] for row in rows] == method_names()
    for row in rows:
        assert "left_out" not in row
        for spec in AUTHORS_LISTS:
            assert row["coverage"][spec][2] == row["coverage"][f"{spec}+1K"][2] == 8  # the same photos for all
        assert {"seen", "unseen", "harmonic", "ausuc"} <= set(row["generalised"])
        assert row["epochs"] == (
            1 if row["method"] == "gcnz" else 2 if row["method"] in ("dgp", "sgcn", "gat", "trgcn") else None
        )


def test_the_network_alone_never_names_an_unseen_class(rows):
    alone = next(row for row in rows if row["method"] == "network")
    assert all(alone[spec]["class"]["hit@20"] == 0 for spec in AUTHORS_LISTS)
    assert alone["generalised"]["unseen"] == 0


def test_every_method_is_judged_by_its_verdicts(rows):
    for row in rows:
        told = row["verdict"]
        assert told["calibrated"] == (row["method"] != "network")
        for kind in ("unseen", "seen"):
            assert set(told[kind]["verdict"]) == {"confidence", "told", "right", "stated", "information", "images"}
            assert set(told[kind]["hierarchical"]) == {"precision@5", "f1", "severity", "area"}
    verdicts = verdict_table(rows)
    assert len(verdicts.rows) == len(rows) and {len(line) for line in verdicts.rows} == {len(verdicts.header)}


def figures_of(averages: dict) -> dict:
    return {average: {hit: figures[hit] for hit in HITS} for average, figures in averages.items()}


def made_up(method: str, values: list[float], network: str = "one") -> dict:
    hits = {hit: {f"c{i}": value for i, value in enumerate(values)} for hit in ("photos", *HITS)}
    return {"method": method, "vectors": "glove", "network": network, "by_class": dict.fromkeys(TESTED, hits)}


def test_the_default_method_is_tested_against_every_row_of_its_network():
    random = np.random.default_rng(0)
    ours = random.uniform(40, 60, 50)
    rows = [made_up("dgp", (ours - 9 + random.normal(0, 1, 50)).tolist()), made_up("kin", ours.tolist()),
            made_up("sgcn", (ours + random.normal(0, 30, 50)).tolist()),
            made_up("kin", ours.tolist(), "two"), {"method": "exem", "left_out": "no photos"}]  # fmt: skip
    tests = paired_tests(rows)
    header, lines = tests.header, tests.rows
    assert header[:3] == ["against", "vectors", "network"] and [line[0] for line in lines] == ["dgp", "sgcn"]
    mean = np.mean(ours - np.array(list(rows[0]["by_class"]["all"]["hit@1"].values())))
    assert lines[0][3] == f"**{mean:+.1f}** (0.001)" and "**" not in lines[1][3]  # 10 tests of p = 1 / 10,001
    assert not paired_tests([row for row in rows if row["method"] != "kin"]).rows


def test_vectors_and_networks_are_told_apart(tmp_path, level):
    work = small_trainings(tmp_path, level)
    methods = [parse_method("structural:glove"), parse_method("structural:text")]
    rows = compare(work, methods, [level.network], verdicts=False)
    assert [row["vectors"] for row in rows] == ["glove", "text"] and not any("verdict" in row for row in rows)
    assert "network" not in table(rows).header
    other = [row | {"network": "another"} for row in rows]
    both = table([*rows, *other])
    assert [line[2] for line in (both.header, *both.rows)] == ["network", *[level.network] * 2, "another", "another"]
    told = {"verdict": {"calibrated": True}}
    named = named_verdicts([row | told for row in (*rows, *other)])
    assert [name for name, _ in named] == [f"structural, {row['vectors']}, {row['network']}" for row in (*rows, *other)]


def test_a_method_may_be_your_own_and_have_vectors(tmp_path, monkeypatch):
    (tmp_path / "compared_method.py").write_text("from unseen.methods.kin import Kin\nclass Mine(Kin): pass\n")
    monkeypatch.chdir(tmp_path)
    asked = ("kin", "kin:text", "compared_method:Mine", "compared_method:Mine:glove+text")
    own = "compared_method:Mine"
    expected = [("kin", None), ("kin", "text"), (own, None), (own, "glove+text")]
    assert [(row.method, row.vectors) for row in map(parse_method, asked)] == expected
    with pytest.raises(UnseenError, match="no method named 'dpg'"):
        parse_method("dpg")
    forget("compared_method")


def test_command_line(tmp_path, level, monkeypatch):
    monkeypatch.setattr("unseen_lab.commands.find_level", lambda photos: level)
    options = ["--photos", "x", "--methods", "structural, kin,kin:glove ", "--out", tmp_path, "--json"]
    done = run_command("compare", *options, "--markdown", tmp_path / "table.md")
    assert done.code == 0, done.err
    vectors = [(row["method"], row["vectors"]) for row in done.json["methods"]]
    assert vectors == [("structural", "glove"), ("kin", "glove+text+looks"), ("kin", "glove")]
    text = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert (
        "| structural | glove" in text and "--epochs 300 --gcnz-epochs 100 --methods structural,kin,kin:glove" in text
    )
    assert "Methods that learn from photos (devise, " in text and "## Verdicts" in text
    again = run_command("compare", "--ranks", tmp_path / "table-ranks.csv.gz", "--json").json["methods"]
    assert [row["all"] for row in again] == [figures_of(row["all"]) for row in done.json["methods"]]
    assert "2-hops 4 of 4 classes, 8 photos" in text and str(tmp_path) not in text
