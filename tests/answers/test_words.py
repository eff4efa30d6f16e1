"""What people call things: the phrase book, names that several nodes share, articles, what was trained on."""

import numpy as np
import pytest

from unseen.answers.probability import NodeSums, select_verdicts
from unseen.answers.words import phrase_book, training_in_words, with_article, words_of
from unseen.hierarchy.core import Hierarchy

ENTITY, MATTER, FOOD, ELEPHANT, PACHYDERM = "n00001740", "n00020827", "n00021265", "n02503517", "n02453108"
INDIAN, AFRICAN = "n02504013", "n02504458"
BOWLS = ("n02880940", "n02881193")


@pytest.fixture(scope="module")
def imagenet():
    return Hierarchy.imagenet()


@pytest.fixture(scope="module")
def words(imagenet):
    return words_of(imagenet)


def verdict(sums: NodeSums, probabilities: dict[str, float], exponent: float = 8.0):
    """(id, probability) of one photo's verdict."""
    column = {sums.hierarchy.ids[row]: at for at, row in enumerate(sums.rows)}
    p = np.zeros((1, len(sums.rows)), np.float32)
    for id, share in probabilities.items():
        p[0, column[id]] = share
    masses = sums(p)
    node = select_verdicts(sums, masses, exponent)[0]
    return (sums.ids[sums.most_probable(node, p[0])], float(masses[0, node])) if node >= 0 else None


def test_the_book_is_sound(imagenet):
    book = phrase_book()
    assert len(book) > 3000 and {rank for *_, rank in book.values()} == {0, 1, 2, 3}
    assert all(imagenet.name(id) == name for id, (name, _, _) in book.items())
    assert all(say == " ".join(say.split()) and say for _, say, _ in book.values())


def test_a_node_that_the_book_lacks_or_that_was_renamed_is_called_by_its_first_name(imagenet):
    animals = Hierarchy(
        [ELEPHANT, PACHYDERM, ENTITY, "mine"], [("tusker",), ("pachyderm",), ("entity",), ("my own", "ours")], [()] * 4
    )
    words = words_of(animals)
    assert words.says[0] == "tusker" and words.says[3] == "my own" and words.sayable[[0, 3]].all()
    assert words.says[1] == phrase_book()[PACHYDERM][1] and not words.sayable[2]


def test_elephant_beats_pachyderm_and_food_beats_matter(imagenet):
    sums = NodeSums(imagenet, np.arange(len(imagenet)))
    id, probability = verdict(sums, {INDIAN: 0.5, AFRICAN: 0.44, "n02391049": 0.06})
    assert id == ELEPHANT and probability == pytest.approx(0.94)
    id, _ = verdict(sums, {"n07873807": 0.5, "n07739125": 0.44, "n14580897": 0.06})  # pizza, apple, a material
    assert id == FOOD


def test_no_verdict_is_vague_or_technical(imagenet, words):
    """Over all nodes of WordNet that answers may have, and on photos with probability anywhere."""
    sums = NodeSums(imagenet, np.arange(len(imagenet)))
    assert (words.ranks[sums.nodes[sums.can_be_said]] >= 2).all() and sums.can_be_said.sum() > 20_000
    p = np.random.default_rng(0).dirichlet(np.full(len(imagenet), 1e-4), 60).astype(np.float32)
    for photo, place in enumerate(select_verdicts(sums, sums(p), 1.0)):
        if place >= 0:
            assert words.ranks[sums.nodes[sums.most_probable(int(place), p[photo])]] >= 2


def test_two_bowls_are_one(imagenet, words):
    sums = NodeSums(imagenet, np.arange(len(imagenet)))
    assert [words.says[imagenet.index(id)] for id in BOWLS] == ["bowl", "bowl"]
    id, probability = verdict(sums, {BOWLS[0]: 0.37, BOWLS[1]: 0.59, ELEPHANT: 0.04})
    assert id == BOWLS[1] and probability == pytest.approx(0.96)
    classes = imagenet.indices([*BOWLS, ELEPHANT])
    assert words.are_true(np.repeat(imagenet.index(BOWLS[0]), 3), classes).tolist() == [True, True, False]


def test_a_name_is_true_of_what_is_at_or_below_any_node_of_that_name(words, imagenet):
    random = np.random.default_rng(0)
    nodes, classes = random.integers(0, len(imagenet), (2, 300))
    nodes[:100] = [imagenet.index(random.choice([*imagenet.ancestors(imagenet.ids[c]), imagenet.ids[c]]))
                   for c in classes[:100]]  # fmt: skip
    for node, row, true in zip(nodes, classes, words.are_true(nodes, classes), strict=True):
        above = imagenet.indices([imagenet.ids[row], *imagenet.ancestors(imagenet.ids[row])])
        assert true == (words.groups[above] == words.groups[node]).any()
    assert not words.are_true(np.array([-1]), np.array([0])).any()


def test_a_class_below_two_nodes_of_one_name_counts_once(words, imagenet):
    sums = NodeSums(imagenet, np.arange(len(imagenet)))
    masses = sums(np.full((1, len(imagenet)), 1 / len(imagenet)))[0]
    assert masses.max() <= 1 + 1e-6
    np.testing.assert_allclose(masses * len(imagenet), sums.sizes, rtol=1e-4)
    shared = np.bincount(words.groups)[words.groups] > 1
    assert shared.sum() > 1000
    for group in np.unique(words.groups[shared])[::50]:
        assert len(set(sums.sizes[words.groups[sums.nodes] == group])) == 1


def test_nodes_of_the_users_own_are_never_taken_together():
    own = Hierarchy(["a", "b", "c"], [("bowl",), ("bowl",), ("bowl",)], [(), (), ()])
    assert words_of(own).groups.tolist() == [0, 1, 2]


def test_paths_have_sayable_steps_each_once(words, imagenet):
    rows = np.random.default_rng(0).integers(0, len(imagenet), 300)
    sayable = {say for say, said in zip(words.says, words.sayable, strict=True) if said}
    for row in rows.tolist():
        path = words.path(row)
        assert path[-1] == words.says[row] and len(set(path)) == len(path)
        assert set(path[:-1]) <= sayable


@pytest.mark.parametrize(
    "said",
    ["a hoofed animal", "an owl", "sunglasses", "broccoli", "a unicycle", "an hourglass", "an X-ray", "a bus",
     "a chest of drawers", "a duck or goose", "food", "an umbrella", "a lens", "clothing", "a piece of clothing",
     "an iPod", "a UV lamp", "a one-piece swimsuit", "scissors", "a dress", "a coffee or tea urn"],
)  # fmt: skip
def test_articles(said):
    first, _, rest = said.partition(" ")
    assert with_article(rest if first in ("a", "an") else said) == said


def test_what_was_trained_on():
    assert training_in_words(seen=True, novel=False) == "trained on it"
    assert training_in_words(seen=False, novel=False) == "trained on kinds of it"
    assert training_in_words(seen=False, novel=True) == "never shown"
    assert training_in_words(seen=False, novel=True, photos=3) == "learned from 3 photos"
    assert training_in_words(seen=True, novel=False, photos=1) == "learned from 1 photo"
