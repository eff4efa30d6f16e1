"""Claims are stated as the figures say, agreeing or not."""

from __future__ import annotations

from unseen.reproduction.claims import check_claims


def row(label: str, value: float | None, candidates: str = "2-hops") -> dict:
    figures = {"hit@1": value}
    return {"label": label, "measured": {candidates: {"image": {"hit@1": 99.0}, "class": figures}}}


def test_deeper_is_not_better():
    deeper = {"layers": {"rows": [row("1", 40.0), row("2", 39.0), row("3", 38.5)]}}
    figures = "Hit@1 with 1, 2, 3 hidden layers: 40.0, 39.0, 38.5"
    assert check_claims(deeper) == [f"Deeper is not better: yes, as in the paper ({figures})."]
    deeper["layers"]["rows"][2] = row("3", 41.0)
    assert "not here" in check_claims(deeper)[0]
    deeper["layers"]["rows"][2] = row("3", None)
    assert check_claims(deeper) == []


def test_finetuning_and_hop_weights():
    values = {"SGCN(-f)": 40, "SGCN": 41, "DGP(-f)": 33, "DGP": 32.5, "DGP(-wf)": 30, "DGP(-w)": 30}
    found = check_claims({"ablation": {"rows": [row(label, value) for label, value in values.items()]}})
    assert found == [
        "Finetuning helps SGCN: yes, as in the paper (Hit@1 41.0 after, 40.0 before).",
        "Finetuning helps DGP: not here (Hit@1 32.5 after, 33.0 before).",
        "Finetuning helps DGP(-w): makes no difference here (Hit@1 30.0 after, 30.0 before).",
        "Hop weights help DGP: yes, as in the paper (Hit@1 33.0 with, 30.0 without).",
    ]


def test_hop_weights_fall_with_distance():
    weights = {"descendants": [0.3, 0.4, 0.2, 0.06, 0.04], "ancestors": [0.1, 0.1, 0.2, 0.3, 0.3]}
    first, second = check_claims({"hop-weights": {"rows": [{"measured": weights}]}})
    assert "from descendants: yes, as in the paper (0.300, 0.400, 0.200, 0.060, 0.040; falling steadily" in first
    assert "from ancestors: not here" in second and "not falling at every hop" in second


def test_two_phases_and_gat():
    found = check_claims({"two-phase": {"rows": [row("without", 30), row("with", 32)]},
                    "gat": {"rows": [row("GAT-1", 35), row("GAT-2", 33), row("GCN-1", 40)]}})  # fmt: skip
    assert found[0].startswith("Two phases help: yes") and found[1].startswith("Attention is no better")
    assert "yes, as in the paper" in found[1]


def test_finetuning_without_stage_two_says_nothing():
    """Where no photos of seen classes are at hand both rows are the same bundle: nothing was tried."""
    rows = [{**row("SGCN", 40.0), "finetune_epochs": 0}, row("SGCN(-f)", 40.0)]
    assert check_claims({"ablation": {"rows": rows}}) == []


def test_order_and_missing_results():
    rows = [row("A", 10.0), row("B", 30.0), {"label": "C"}, {"label": "D", "left_out": "no photos"}]
    found = check_claims({"unseen-classes": {"rows": rows}})
    assert found == ["Order on unseen classes (first list, Hit@1): B 30.0, A 10.0."]
    assert check_claims({}) == []
    assert check_claims({"layers": {"rows": []}, "two-phase": {"rows": []}, "ablation": {"rows": []}}) == []
