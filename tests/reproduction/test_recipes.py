"""Every recipe is complete, and its published numbers are those of the paper's own source, where that is had."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from unseen.errors import UnseenError
from unseen.methods import get_method, method_names
from unseen.reproduction.recipe import KINDS, ORDER, load_recipe

PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper.tex"
LABELS = {  # the paper's \label of each table -> the recipe
    "tab:results": "unseen-classes",
    "tab:results_generalized": "generalised",
    "tab:resultsAblation": "ablation",
    "tab:results_seen_image": "seen-classes",
    "tab:layer_size": "layers",
    "tab:two_phase": "two-phase",
    "tab:significant": "robustness",
    "tab:xiaolongComparison": "gcnz-steps",
    "tab:results_awa": "awa2",
    "tab:results2": "gat",
}


@pytest.mark.parametrize("name", ORDER)
def test_complete(name):
    recipe = load_recipe(name)
    assert recipe.kind in KINDS
    assert recipe.title and recipe.paper and recipe.shows and recipe.cost
    assert recipe.rows or recipe.published
    for row in recipe.rows:
        assert row.method is None or row.method in method_names()
        assert row.published or row.ours or recipe.kind == "qualitative", f"{row.label}: nothing to set beside"
        assert not (row.ours and row.published), f"{row.label}: not in the paper, yet with published numbers"
        for key, numbers in row.published.items():
            if recipe.kind != "hop-weights":
                assert key in recipe.candidates
                assert len(numbers) == len(recipe.hits)


@pytest.mark.parametrize("name", ORDER)
def test_settings_exist(name):
    """A setting that a recipe names is one that the method has."""
    for row in load_recipe(name).rows:
        if row.method is not None:
            known = {item.name for item in fields(get_method(row.method).Settings)}
            assert set(row.settings) <= known


def test_every_table_shows_the_structural_baseline():
    for name in ("unseen-classes", "generalised", "seen-classes", "awa2"):
        assert any(row.method == "structural" for row in load_recipe(name).rows)


@pytest.mark.parametrize(("label", "name"), LABELS.items())
def test_published_numbers_are_the_papers(label, name):
    """The same numbers, as often, in the paper's table and in the recipe."""
    if not PAPER.exists():
        pytest.skip("the paper's source is not here")
    expected = sorted(_numbers_of_table(PAPER.read_text(encoding="utf-8"), label))
    recipe = load_recipe(name)
    found = [n for row in recipe.rows for numbers in row.published.values() for n in numbers]
    found += [n for row in recipe.rows for numbers in row.published_deviation.values() for n in numbers]
    assert sorted(found) == expected


def test_hop_weights_and_sizes_are_the_papers():
    if not PAPER.exists():
        pytest.skip("the paper's source is not here")
    text = PAPER.read_text(encoding="utf-8")
    for weights in load_recipe("hop-weights").rows[0].published.values():
        assert ", ".join(f"${weight:.3f}$" for weight in weights) in text
    published = load_recipe("scalability").published
    for count in (published["weights_sgcn"], published["weights_gcnz"]):
        assert f"{count:,}" in text
    assert published["weights_dgp"] == published["weights_sgcn"] + 2 * (4 + 1)
    for key in ("density_sparse", "density_dense"):
        assert rf"${published[key] * 1e5:.1f}\times 10^{{-5}}$" in text


def test_unknown_table_is_told():
    with pytest.raises(UnseenError, match="Did you mean ablation"):
        load_recipe("ablations")


def _numbers_of_table(text: str, label: str) -> list[float]:
    """The figures of the tabular that follows (or holds) a label: comments, rules and row names left out."""
    start = text.index(rf"\label{{{label}}}")
    body = text[text.index(r"\midrule", start) : text.index(r"\end{tabular}", start)]
    numbers = []
    for line in body.splitlines():
        line = re.sub(r"(?<!\\)%.*", "", line)
        cells = [re.sub(r"\\bf|[{}]", "", cell) for cell in line.split("&")]
        for cell in cells[1:]:
            cell = re.sub(r"\\\\.*", "", cell).strip()
            if re.fullmatch(r"[\d.]+(\$\\pm\$[\d.]+)?", cell):
                numbers += [float(number) for number in re.findall(r"[\d.]+", cell)]
    return numbers
