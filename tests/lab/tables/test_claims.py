"""Claims are stated as the figures say, agreeing or not, and never beyond what the classes can tell."""

from __future__ import annotations

import re

import numpy as np
import pytest

from unseen_lab.tables.claims import check_claims as check_claims_and_count
from unseen_lab.tables.claims import compare_rows, holm, sign_flip

CLASSES = 60


def check_claims(results: dict) -> list[str]:
    return check_claims_and_count(results)[0]


def row(label: str, value: float | None, candidates: str = "2-hops", spread: float = 5.0, **more) -> dict:
    """A row whose classes lie about its value; `spread` apart from others' by chance alone."""
    made = {"label": label, "measured": {candidates: {"image": {"hit@1": 99.0}, "class": {"hit@1": value}}}, **more}
    if value is not None:
        chance = np.random.default_rng(sum(map(ord, label))).normal(size=CLASSES)
        each = value + spread * (chance - chance.mean())
        made["by_class"] = {candidates: {f"class-{i}": float(each[i]) for i in range(CLASSES)}}
    return made


def test_the_main_claim_comes_first():
    rows = [row("SGCN", 30.0), row("DGP", 40.0), row("kin", 45.0)]
    found = check_claims({"layers": {"rows": []}, "unseen-classes": {"rows": rows}})
    assert re.fullmatch(
        r"DGP is at least level with SGCN on 2-hops: yes \(Hit@1 40.0 DGP, 30.0 SGCN \[images 99.0, 99.0\]; "
        r"difference \+10.0 \[\+[89]\.\d, \+1[12]\.\d\], p < 0.001 over 60 classes\)\.",
        found[0],
    )
    assert found[1].endswith("not tested; epochs in brackets: kin 45.0, DGP 40.0, SGCN 30.0.")
    worse = check_claims({"unseen-classes": {"rows": [row("SGCN", 40.0), row("DGP", 30.0)]}})
    assert worse[0].startswith("DGP is at least level with SGCN on 2-hops: no (")


def test_the_main_claim_is_tested_on_every_list():
    rows = []
    for label, values in (("SGCN", (40.0, 20.0)), ("DGP", (40.1, 10.0))):
        near, far = row(label, values[0]), row(label, values[1], "all")
        rows.append(near | {part: near[part] | far[part] for part in ("measured", "by_class")})
    found, tests = check_claims_and_count({"unseen-classes": {"rows": rows}})
    assert found[0].startswith("DGP is at least level with SGCN on 2-hops: within chance (")
    assert found[1].startswith("DGP is at least level with SGCN on all: no (") and tests == 2


def test_a_claim_within_chance_tells_what_the_difference_may_be():
    """Level is not shown by few classes: the interval holds what could be."""
    rows = [row("SGCN", 40.0, spread=30.0), row("DGP", 39.0, spread=30.0)]
    found = check_claims({"unseen-classes": {"rows": rows}})[0]
    low, high = map(float, re.search(r"\[([-+.\d]+), ([-+.\d]+)\]", found).groups())
    assert ": within chance (" in found and low < -5 and high > 3


def test_many_tests_ask_more_of_each():
    """One of two claims that alone are beyond chance by a little is within it where a dozen are made."""
    alone = sign_flip(np.array([3.0, 2.0, 4.0, 1.0, -1.0, 5.0]))
    assert alone < 0.1 and holm([alone] * 12) == [1.0 if 12 * alone > 1 else 12 * alone] * 12
    assert holm([0.5]) == [0.5] and holm([]) == []
    assert holm([0.001, 0.9, 0.02]) == pytest.approx([0.003, 0.9, 0.04])


def test_a_small_but_steady_difference_is_none():
    """The test is paired: what all classes share is no chance."""
    rows = [row("with", 34.7, spread=0.0), row("without", 34.2, spread=0.0)]
    (found,) = check_claims({"two-phase": {"rows": rows}})
    assert found.startswith("Two phases help: yes (")


def test_sign_flips_agree_with_all_of_them():
    differences = np.array([4.0, 3.0, -1.0, 2.0, 5.0, -0.5, 1.0, 2.5])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1).T
    exact = (np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9).mean()
    assert sign_flip(differences) == pytest.approx(exact, abs=0.01)
    assert sign_flip(-differences) == pytest.approx(exact, abs=0.01)
    assert sign_flip(np.zeros(5)) == 1.0


def test_chance_alone_is_rarely_told_as_more():
    """Of rows that differ by chance, at most some 5 % are told as different."""
    random = np.random.default_rng(0)
    told = sum(sign_flip(random.normal(size=40), flips=400) < 0.05 for _ in range(300))
    assert told <= 0.09 * 300


def test_only_shared_classes_are_compared():
    one, other = row("A", 30.0), row("B", 40.0)
    del other["by_class"]["2-hops"]["class-0"]
    assert compare_rows(one, other).classes == CLASSES - 1
    assert compare_rows({**one, "by_class": {}}, other).verdict == "not tested"


def test_deeper_is_not_better():
    deeper = {"layers": {"rows": [row("1", 60.0), row("2", 39.0), row("3", 38.5)]}}
    figures = "Hit@1 with 1, 2, 3 hidden layers: 60.0, 39.0, 38.5 [images 99.0, 99.0, 99.0]"
    (found,) = check_claims(deeper)
    assert found.startswith(f"Deeper is not better: yes ({figures}; difference +21.0 [")
    assert found.count("p < 0.001") == 2 and found.endswith(" over 60 classes).")
    deeper["layers"]["rows"][2] = row("3", 80.0)
    assert check_claims(deeper)[0].startswith("Deeper is not better: no (")
    deeper["layers"]["rows"][2] = row("3", 60.1)  # one is worse, the other level
    assert check_claims(deeper)[0].startswith("Deeper is not better: within chance (")
    deeper["layers"]["rows"][2] = row("3", None)
    assert check_claims(deeper) == []


def test_finetuning():
    rows = [row("SGCN(-f)", 40), row("SGCN", 50), row("DGP(-f)", 33), row("DGP", 22), row("DGP(-wf)", 30)]
    found = check_claims({"ablation": {"rows": rows}})
    assert [claim.split(" (Hit")[0] for claim in found] == [
        "Finetuning helps SGCN: yes",
        "Finetuning helps DGP: no",
        "DGP is at least level with SGCN before finetuning: no",
        "Hop weights help DGP: yes",
    ]


def test_the_papers_figures_and_image_averages_stand_beside_ours():
    rows = [row("SGCN", 30.0, published={"2-hops": [26.2, 40.4]}), row("DGP", 40.0, published={"2-hops": [26.6, 40.7]})]
    found = check_claims({"unseen-classes": {"rows": rows}})[0]
    assert "(Hit@1 40.0 DGP, 30.0 SGCN [images 99.0, 99.0; paper 26.6, 26.2]; difference" in found
    rows = [row("GAT-1", 30.0), row("GAT-2", 29.0), row("GCN-1", 31.0)]
    rows = [each | {"published": {"2-hops": [hit]}} for each, hit in zip(rows, (24.1, 23.3, 24.8), strict=True)]
    (found,) = check_claims({"gat": {"rows": rows}})
    assert "GCN-1 31.0, GAT-1 30.0, GAT-2 29.0 [images 99.0, 99.0, 99.0; paper 24.8, 24.1, 23.3]; diff" in found


def test_different_lengths_are_not_compared():
    rows = [row("SGCN", 40.0, epochs=300), row("GCNZ", 30.0, epochs=100)]
    (found,) = check_claims({"gcnz-steps": {"rows": rows}})
    assert found.endswith("not compared, for SGCN was trained for 300 epochs and GCNZ for 100.")
    rows[1]["epochs"] = 300
    assert "better than the deep GCNZ: yes (" in check_claims({"gcnz-steps": {"rows": rows}})[0]


def test_finetuning_without_stage_two_says_nothing():
    """Where no photos of seen classes are at hand both rows are the same bundle: nothing was tried."""
    rows = [row("SGCN", 40.0, finetune_epochs=0), row("SGCN(-f)", 40.0)]
    assert check_claims({"ablation": {"rows": rows}}) == []


def test_order_and_missing_results():
    rows = [
        row("A", 10.0),
        row("B", 30.0, epochs=3000, finetune_epochs=3),
        {"label": "C"},
        {"label": "D", "left_out": "no photos"},
    ]
    found = check_claims({"unseen-classes": {"rows": rows}})
    order = "Order on unseen classes, first list, not tested; epochs in brackets"
    assert found == [f"{order}: B 30.0 (3,000+3), A 10.0."]
    assert check_claims({}) == []
    assert check_claims({"layers": {"rows": []}, "two-phase": {"rows": []}, "ablation": {"rows": []}}) == []
