"""Every recipe is complete, and its published numbers are those of the paper's own source, where that is had."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import pytest

from unseen.hierarchy.core import Hierarchy
from unseen.methods import get_method
from unseen.util.errors import UnseenError
from unseen_lab.tables.levels import KINDS, LENGTHS, ORDER, Level, load_recipe
from unseen_lab.tables.run import densities, weight_counts
from unseen_lab.tables.trainings import Trainings

ROOT = Path(__file__).parents[3]

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
        known = {item.name for item in fields(get_method(row.method).Settings)} if row.method else set()
        assert set(row.settings) <= known, f"{row.label}: a setting that {row.method} does not have"
        assert row.published or row.ours or recipe.kind == "qualitative", f"{row.label}: nothing to set beside"
        assert not (row.ours and row.published), f"{row.label}: not in the paper, yet with published numbers"
        for key, numbers in row.published.items():
            if recipe.kind != "hop-weights":
                assert key in recipe.candidates
                assert len(numbers) == len(recipe.hits)


@pytest.mark.parametrize(("label", "name"), LABELS.items())
def test_published_numbers_are_the_papers(paper, label, name):
    """Row by row, in the paper's order: the same list of candidates, model, normalisation and figures."""
    recipe = load_recipe(name)
    ours = [(spec, row) for spec in recipe.candidates for row in recipe.rows if spec in row.published]
    theirs = list(_rows_of_table(paper, label))
    assert len(ours) == len(theirs)
    for (spec, row), printed in zip(ours, theirs, strict=True):
        assert printed.candidates in (spec.lower(), None)
        assert (row.published_as or row.label).lower().startswith(printed.model.lower())
        assert row.norm == printed.norm
        assert row.published[spec] == printed.figures
        assert row.published_deviation.get(spec, []) == printed.deviations


def test_hop_weights_and_sizes_are_the_papers(paper):
    for weights in load_recipe("hop-weights").rows[0].published.values():
        assert ", ".join(f"${weight:.3f}$" for weight in weights) in paper
    published = load_recipe("scalability").published
    for count in (published["weights_sgcn"], published["weights_gcnz"]):
        assert f"{count:,}" in paper
    assert published["weights_dgp"] == published["weights_sgcn"] + 2 * (4 + 1)
    for key in ("density_sparse", "density_dense"):
        assert rf"${published[key] * 1e5:.1f}\times 10^{{-5}}$" in paper


def test_weight_counts_are_the_papers():
    published = load_recipe("scalability").published
    assert weight_counts() == {key: published[key] for key in ("weights_sgcn", "weights_dgp", "weights_gcnz")}


def test_densities_are_the_papers(authors_lists):
    found, published = densities(Hierarchy.paper()), load_recipe("scalability").published
    assert (found["nodes"], found["edges"]) == (32324, 32544)
    assert round(found["density_sparse"], 6) == published["density_sparse"]
    assert found["density_dense"] * 1e5 == pytest.approx(19.15, abs=0.005)  # the paper cuts it to 19.1


def test_unknown_table_is_told():
    with pytest.raises(UnseenError, match="Did you mean ablation"):
        load_recipe("ablations")


class Printed(NamedTuple):
    """A row of a table of the paper."""

    candidates: str | None  # None where all rows are about the same
    model: str
    norm: str | None
    figures: list[float]
    deviations: list[float]


def _rows_of_table(text: str, label: str) -> Iterator[Printed]:
    """The rows of the tabular that follows (or holds) a label; comments and rules left out."""
    start = text.index(rf"\label{{{label}}}")
    head, body = text[start : text.index(r"\end{tabular}", start)].split(r"\midrule", 1)
    candidates = None
    for line in body.splitlines():
        cells = [_plain(cell) for cell in re.sub(r"(?<!\\)%.*", "", line).split("&")]
        if len(cells) < 2:
            continue
        if "Test set" in head:
            candidates = cells.pop(0).lower() or candidates
        model, *rest = cells
        norm = rest.pop(0) if "Norm" in head else None
        numbers = [re.findall(r"[\d.]+", cell) for cell in rest]
        deviations = [float(number[1]) for number in numbers if len(number) > 1]
        yield Printed(candidates, model.split(" ")[0], norm, [float(number[0]) for number in numbers], deviations)


def _plain(cell: str) -> str:
    """A cell without its LaTeX."""
    cell = re.sub(r"\\multirow\{\d\}\{\*\}|\$\^.*?\$|~?\\cite\{.*?\}|\\bf|\\Tstrut|\\\\.*", "", cell)
    return re.sub(r"[{}]", "", cell.replace(r"\ADGN", "DGP")).strip()


def test_the_page_on_clusters_counts_what_the_recipes_need(tmp_path):
    """Bundles, finetuned ones, and passes over ImageNet-21K's features, with those for the plots."""
    level = Level("paper", "paper", "glove", "resnet50", *[tmp_path] * 3, awa2=tmp_path, attributes=tmp_path)
    (tmp_path / "class").mkdir()
    work, bundles, tuned, rows = Trainings(tmp_path, level, LENGTHS["paper"]), set(), set(), 0
    for recipe in map(load_recipe, ORDER):
        for row in (row for row in recipe.rows if row.method is not None):
            plans = [work.plan(row, seed) for seed in recipe.seeds]
            bundles |= {plan.place for plan in plans}
            tuned |= {plan.tuned for plan in plans if plan.tuned is not None}
            rows += len(plans) if recipe.kind in ("hits", "seeds") and recipe.photos == "unseen" else 0
    words = {8: "eight", 9: "nine"}
    page = " ".join((ROOT / "docs" / "cluster.md").read_text(encoding="utf-8").split())
    assert f"All tables need {len(bundles)} bundles of stage 1, {words[len(tuned)]} of which are finetuned" in page
    assert f"features by {words[len(tuned) + 1]} networks" in page
    assert f"{rows + 8} passes over features: one for each of the {rows} rows" in page
