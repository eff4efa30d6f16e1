"""The rule that chooses a node, and what it is called."""

import numpy as np
import pytest

from unseen.answers.probability import NodeSums, Verdict, check_confidence, select_verdicts
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError

KINDS = {"bird": ["finch", "gull", "owl", "wren"], "fish": ["carp", "eel"], "tool": ["axe", "saw", "awl", "adze"]}
EDGES = [(kind, top) for top, kinds in KINDS.items() for kind in kinds]
EDGES += [("bird", "thing"), ("fish", "thing"), ("tool", "thing")]


def chooser(**probabilities: float):
    hierarchy = Hierarchy.from_edges(EDGES)
    classes = [kind for kinds in KINDS.values() for kind in kinds]
    sums = NodeSums(hierarchy, np.sort(hierarchy.indices(classes)))
    p = np.array([[probabilities.get(hierarchy.ids[row], 0) for row in sums.rows]], np.float32)

    def winner(exponent: float) -> str | None:
        node = select_verdicts(sums, sums(p), exponent)[0]
        return None if node < 0 else hierarchy.ids[sums.nodes[node]]

    return winner


def test_more_careful_is_more_general():
    winner = chooser(finch=0.6, gull=0.2, wren=0.1, carp=0.1)
    assert [winner(k) for k in (0.1, 1, 6, 400)] == ["finch", "finch", "bird", None]


def test_a_node_never_becomes_more_specific_as_care_grows():
    random = np.random.default_rng(1)
    hierarchy = Hierarchy.from_edges(EDGES)
    sums = NodeSums(hierarchy, np.sort(hierarchy.indices([kind for kinds in KINDS.values() for kind in kinds])))
    masses = sums(random.dirichlet(np.full(10, 0.3), 200).astype(np.float32))
    nodes = select_verdicts(sums, masses, np.geomspace(0.1, 99, 25))
    bits = np.where(nodes >= 0, sums.information[nodes], 0)
    assert (np.diff(bits, axis=0) <= 1e-9).all() and bits[0].mean() > bits[-1].mean()


def test_what_says_next_to_nothing_is_no_answer():
    assert chooser(finch=0.25, gull=0.25, carp=0.25, axe=0.25)(5.0) is None


def test_an_unknown_verdict_is_false_and_has_no_probability():
    unknown = Verdict.unknown(7)
    assert not unknown and not unknown.known
    assert unknown.to_dict() == {
        "id": None, "name": None, "say": None, "probability": None, "level": "unknown", "classes": 7, "path": ()
    }  # fmt: skip


def test_a_known_verdict_is_true_and_speaks():
    owl = Verdict("n01621127", "owl", "owl", 0.8, "likely", 19, ("animal", "bird", "owl"))
    assert owl and owl.known and str(owl) == "likely: an owl (80 %)"


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, float("nan"), True, "0.9"])
def test_a_confidence_is_between_0_and_1(confidence):
    with pytest.raises(UnseenError, match="between 0 and 1"):
        check_confidence(confidence)
