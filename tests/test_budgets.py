"""No part of the repository is above its budget in CONTRIBUTING.md: a feature that does not fit makes room first."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def budgets(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module("budgets")


def test_no_part_is_above_its_budget(budgets):
    sizes, stated = budgets.measure(), budgets.budgets()
    assert sizes.keys() == stated.keys(), "`python tools/budgets.py --lower` adds and removes rows"
    above = [f"{part} has {size}, budget {budget}" for part, size in sizes.items()
             for budget in [stated[part][0]]
             if size.length > budget.length or (size.statements or 0) > (budget.statements or 0)]  # fmt: skip
    assert above == []


def test_statements_and_words_are_counted(budgets, tmp_path, monkeypatch):
    (tmp_path / "module.py").write_text('"""One."""\n\nif True:\n    two = 3; three = 4\n')
    assert budgets._python(tmp_path) == budgets.Size(4, 4)
    page = tmp_path / "page.md"
    page.write_text("Four words by hand\n\n<!-- table: lists -->\n\n| a | b |\n|:---|---:|\n| 1 | 2 |\n\nand two\n")
    assert budgets._words(page) == 6
    page.write_text("one\n<!-- plan: tools/draw_plan.py -->\n| a |\nb\n<!-- end of plan -->\ntwo\n")
    assert budgets._words(page) == 2
