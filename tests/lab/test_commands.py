"""`unseen reproduce`: a table, all tables, and the report from what is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.command_line import run_command as unseen
from support.tables import write_level

pytestmark = pytest.mark.slow


@pytest.fixture
def command(tmp_path, monkeypatch) -> list[object]:
    """The command with small data and without the authors' lists."""
    monkeypatch.delenv("UNSEEN_ASSETS", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    level = write_level(tmp_path / "data")
    options = {
        "--photos": tmp_path / "data",
        "--hierarchy": level.hierarchy,
        "--network": level.network,
        "--out": "work",
    }
    return [part for pair in options.items() for part in pair] + ["--workers", 0, "--device", "cpu"]


def test_a_table_then_all_that_is_done_then_the_report(command):
    done = unseen("reproduce", "gat", *command, "--epochs", 1, "--json")
    assert done.code == 0, done.err
    assert "level photos: 1 epochs of stage 1 (GCNZ 1, comparisons of variants 1)" in done.err
    result = done.json
    assert result["level"] == "photos" and list(result["tables"]) == ["gat"]
    measured = [row["measured"] for row in result["tables"]["gat"]["rows"]]
    assert measured and all(row["2-hops"]["class"]["hit@20"] == 100 for row in measured)  # fewer than 20 candidates

    shown = unseen("reproduce", "gat", *command, "--epochs", 1)
    assert shown.code == 0 and "level photos" in shown.out and "GAT" in shown.out
    assert all(f"{row['2-hops']['class']['hit@1']:.1f}" in shown.out for row in measured)

    pytest.importorskip("matplotlib")
    every = unseen("reproduce", "all", *command, "--epochs", 1, "--only-done")
    assert every.code == 0, every.err
    assert "left out. " in every.out and f"Report: {Path('work') / 'report.md'}" in every.out
    again = ["reproduce", "--report", "again", "--out", "work"]
    report = unseen(*again, "--no-pictures", "--json").json["report"]
    assert {"markdown", "plots"} <= set(report) and all(Path(place).exists() for place in report.values())
    assert Path("again/report.md").read_text(encoding="utf-8").count("GAT") >= len(measured)
    assert "again/report.md" in unseen(*again).out


def test_quick_takes_a_sample(command):
    done = unseen("reproduce", "ablation", *command, "--quick", "--finetune-epochs", 0)
    assert done.code == 0, done.err
    assert "SGCN(-f)" in done.out and list(Path("work/sample").glob("*/unseen/*/*"))


def test_mistakes_are_one_line(command):
    done = unseen("reproduce", "abblation", *command)
    assert done.code == 1 and "ablation" in done.err and "Traceback" not in done.err
    done = unseen("reproduce", "ablation", "--imagenet-21k", "data")
    assert done.code == 1 and "needs both: ImageNet-21K" in done.err
    done = unseen("reproduce", "--report", "again", "--out", "nowhere")
    assert done.code == 1 and "no results here" in done.err
    assert "name a table" in unseen("reproduce").err
