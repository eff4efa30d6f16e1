"""The ranks of a comparison give its figures and tests again, without photos."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from support.command_line import run_command
from unseen.evaluation.table import NEVER
from unseen.util.errors import UnseenError
from unseen_lab.tables.compare import LISTS, SEEN
from unseen_lab.tables.ranks import read_ranks, write_ranks

RESULTS = Path(__file__).parents[3] / "docs" / "results"
COMMITTED = RESULTS / "comparison-ranks.csv.gz"


def made_up(method: str, greater: list[int], equal: list[int]) -> dict:
    ranks = {"class": ["a", "a", "b"], "greater": greater, "equal": equal}
    return {"method": method, "vectors": "=glove", "network": "one", "epochs": 300 if method == "dgp" else None,
            "photos": None, "seconds": 1.5, "ranks": dict.fromkeys((*LISTS, SEEN), ranks)}  # fmt: skip


def test_what_is_written_is_read(tmp_path):
    rows = [made_up("dgp", [0, 1, 7], [0, 1, 0]), made_up("network", [NEVER] * 3, [0] * 3)]
    (tmp_path / "ranks.csv.gz").write_bytes(write_ranks(rows))
    assert write_ranks(rows) == (tmp_path / "ranks.csv.gz").read_bytes()  # always the same bytes
    dgp, network = read_ranks(tmp_path / "ranks.csv.gz")
    assert (dgp["method"], dgp["vectors"], dgp["epochs"], network["epochs"]) == ("dgp", "=glove", 300, None)
    assert dgp["all"]["image"] == {"hit@1": pytest.approx(100 / 3, abs=0.01), "hit@5": pytest.approx(200 / 3, abs=0.01)}
    assert dgp["all"]["class"] == {"hit@1": 25, "hit@5": 50} and network["all"]["class"] == {"hit@1": 0, "hit@5": 0}
    assert dgp["by_class"]["2-hops"]["hit@1"] == {"a": 50, "b": 0}
    assert dgp["generalised"] == {"seen": 25, "unseen": 25, "harmonic": 25}
    assert dgp["coverage"]["all"] == [2, None, 3]


def test_rows_of_other_photos_do_not_share_a_file():
    one, other = made_up("dgp", [0, 1, 7], [0, 1, 0]), made_up("kin", [0, 1, 7], [0, 1, 0])
    other["ranks"] = {spec: {"class": ["a"], "greater": [0], "equal": [0]} for spec in other["ranks"]}
    with pytest.raises(UnseenError, match="different photos of 2-hops"):
        write_ranks([one, other])


@pytest.mark.parametrize(
    "content", [b"", b"no gzip", gzip.compress(b"a,b\n", mtime=0), gzip.compress(b"\xff", mtime=0), None]
)
def test_other_files_are_refused(tmp_path, content):
    if content is not None:
        (tmp_path / "ranks.csv.gz").write_bytes(content)
    with pytest.raises(UnseenError, match=r"ranks\.csv\.gz: (not the ranks|No such file)"):
        read_ranks(tmp_path / "ranks.csv.gz")


def test_a_list_must_not_lack(tmp_path):
    row = made_up("dgp", [0, 1, 7], [0, 1, 0])
    del row["ranks"]["all"]
    (tmp_path / "ranks.csv.gz").write_bytes(write_ranks([row]))
    with pytest.raises(UnseenError, match="has no ranks on all"):
        read_ranks(tmp_path / "ranks.csv.gz")


def test_the_committed_ranks_are_the_photos_of_the_page():
    for row in read_ranks(COMMITTED):
        assert [row["coverage"][spec][0] for spec in ("2-hops", "3-hops", "all")] == [82, 257, 420]


def test_a_row_of_two_pages_has_one_figure():
    """Ties and their tolerance decide as much as methods do, so a page must not be older than the rule."""
    pages = [{(row["method"], row["vectors"], row["network"]): row for row in read_ranks(RESULTS / name)}
             for name in (COMMITTED.name, "networks-ranks.csv.gz")]  # fmt: skip
    both = pages[0].keys() & pages[1].keys()
    assert {"structural", "kin", "conse", "network"} == {method for method, _, _ in both}
    for key in both:
        assert [pages[0][key][spec] for spec in LISTS] == [pages[1][key][spec] for spec in LISTS]


def test_command_line():
    done = run_command("compare", "--ranks", COMMITTED, "--json")
    assert done.code == 0, done.err
    assert [row["method"] for row in done.json["methods"]] == [row["method"] for row in read_ranks(COMMITTED)]
    assert done.json["tests"]["hit@1"][0][0] == "against"
    shown = run_command("compare", "--ranks", COMMITTED)
    assert "structural" in shown.out and "kin against every other row" in shown.out and "**" not in shown.out
    assert "--photos" in run_command("compare").err
