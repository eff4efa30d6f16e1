"""The rule that chooses a node, and what it is called."""

import numpy as np
import pytest

from unseen.errors import UnseenError
from unseen.probability.sums import NodeSums
from unseen.probability.verdicts import Contest, Verdict, check_sureness, level_of
from unseen.taxonomy import Taxonomy

KINDS = {"bird": ["finch", "gull", "owl", "wren"], "fish": ["carp", "eel"], "tool": ["axe", "saw", "awl", "adze"]}
EDGES = [(kind, top) for top, kinds in KINDS.items() for kind in kinds]
EDGES += [("bird", "thing"), ("fish", "thing"), ("tool", "thing")]


def contest(**probabilities: float):
    taxonomy = Taxonomy.from_edges(EDGES)
    classes = [kind for kinds in KINDS.values() for kind in kinds]
    sums = NodeSums(taxonomy, np.sort(taxonomy.indices(classes)))
    p = np.array([[probabilities.get(taxonomy.ids[row], 0) for row in sums.rows]], np.float32)

    def winner(exponent: float) -> str | None:
        node = Contest(sums, sums(p)).winners(exponent)[0]
        return None if node < 0 else taxonomy.ids[sums.nodes[node]]

    return winner


def test_more_careful_is_more_general():
    winner = contest(finch=0.6, gull=0.2, wren=0.1, carp=0.1)
    assert [winner(k) for k in (0.1, 1, 6, 400)] == ["finch", "finch", "bird", None]


def test_a_node_never_becomes_more_specific_as_care_grows():
    random = np.random.default_rng(1)
    taxonomy = Taxonomy.from_edges(EDGES)
    sums = NodeSums(taxonomy, np.sort(taxonomy.indices([kind for kinds in KINDS.values() for kind in kinds])))
    found = Contest(sums, sums(random.dirichlet(np.full(10, 0.3), 200).astype(np.float32)))
    told = [np.where((v := found.winners(k)) >= 0, sums.information[v], 0) for k in np.geomspace(0.1, 99, 25)]
    assert (np.diff(np.array(told), axis=0) <= 1e-9).all() and told[0].mean() > told[-1].mean()


def test_what_says_next_to_nothing_is_no_answer():
    assert contest(finch=0.25, gull=0.25, carp=0.25, axe=0.25)(5.0) is None


def test_words():
    assert [level_of(p) for p in (0.95, 0.9, 0.8, 0.3)] == ["sure", "sure", "likely", "guess"]
    assert Verdict.unknown(7).as_dict() == {
        "id": None, "name": None, "probability": 1.0, "level": "unknown", "classes": 7, "path": ()
    }  # fmt: skip


@pytest.mark.parametrize("sure", [0, 1, -0.1, 1.5, float("nan"), True, "0.9"])
def test_a_sureness_is_between_0_and_1(sure):
    with pytest.raises(UnseenError, match="between 0 and 1"):
        check_sureness(sure)
