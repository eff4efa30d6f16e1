"""Classes added to a finished bundle get what training's prediction would have given them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from support.bundles import (
    DOG,
    GIRAFFE,
    HORSE,
    OKAPI,
    POODLE,
    SAW,
    SEEN,
    TABBY,
    ZEBRA,
    small_bundle,
    small_hierarchy,
    small_network,
)
from unseen.bundle import Bundle, grow
from unseen.bundle.grow import add, already_classes, remove, rename
from unseen.data import imagenet_1k
from unseen.hierarchy.core import Hierarchy, Node
from unseen.methods import make_method
from unseen.methods.base import normalise_rows
from unseen.model import Model
from unseen.networks.loading import load_network
from unseen.networks.store import SeenFeatures
from unseen.util.errors import UnseenError
from unseen.vectors.class_vectors import class_vectors, load_vectors

METHODS = {"kin": {}, "structural": {}, "dgp": {"epochs": 3}, "sgcn": {"epochs": 3}, "gat": {"epochs": 3}}
HIDDEN = (OKAPI, POODLE, SAW)


@pytest.fixture(autouse=True)
def encoder(monkeypatch) -> None:
    """What is tested here holds for any encoder of sentences, and the real one takes seconds to import."""

    def encode(texts: list[str]) -> np.ndarray:
        return normalise_rows(np.stack([np.random.default_rng([*text.encode()]).normal(size=384) for text in texts]))

    monkeypatch.setattr("unseen.vectors.text_encoder.encode_sentences", encode)


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return small_bundle("kin", "glove+text")


@pytest.mark.parametrize("method", METHODS)
def test_hidden_classes_come_back_as_training_would_have_predicted_them(method):
    """Leaves hidden, the rest trained, the leaves added by one of their names: prediction on the full hierarchy."""
    full = small_hierarchy()
    bundle = small_bundle(method, "glove+text", hierarchy=full.without(HIDDEN), **METHODS[method])
    grown = add(bundle, [Node(i, full.name(i), full.parents(i)) for i in HIDDEN])

    problem = bundle.problem(full, class_vectors(full, load_vectors("glove+text")))
    expected = make_method(method, bundle.settings).predict(problem, bundle.solution.state)
    for id in HIDDEN:
        assert grown.solution.classifiers[grown.hierarchy.index(id)] == pytest.approx(
            expected[full.index(id)], abs=1e-5
        )
    assert grown.added == list(HIDDEN)
    assert not np.allclose(expected[full.index(OKAPI)], expected[full.index(SAW)], atol=1e-3)


@pytest.fixture(scope="module")
def fifty(shared_photos):
    """A hierarchy, 50 of its leaves, the built-in network, and the features of a photo of every second one."""
    available = [folder.name for folder in sorted((shared_photos / "unseen").iterdir())]
    full = Hierarchy.imagenet().subgraph([*imagenet_1k(), *available])
    leaves = sorted(set(full.leaves) & set(available))
    hidden = leaves[:: len(leaves) // 50][:50]
    network = load_network()
    pixels = [network.transform.open(sorted((shared_photos / "unseen" / id).iterdir())[0]) for id in hidden[::2]]
    return full, hidden, network, network.features(torch.stack(pixels)).numpy()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [("kin", {"width": 1.0, "ridge": 0.1}), ("dgp", {"epochs": 2})])
def test_fifty_hidden_classes_and_their_photos(fifty, name, settings):
    """Real classes, photos and network: what is added scores photos as if it had never been hidden."""
    full, hidden, network, features = fifty
    bundle = small_bundle(name, "glove+text", hierarchy=full.without(hidden), network=network, **settings)
    grown = add(bundle, [Node(id, full.name(id), full.parents(id)) for id in hidden])

    problem = bundle.problem(full, class_vectors(full, load_vectors("glove+text")))
    expected = make_method(name, bundle.settings).predict(problem, bundle.solution.state, full.indices(hidden))
    found = grown.solution.classifiers[grown.hierarchy.indices(hidden)]
    assert np.abs(found - expected).max() < 1e-5
    model = Model(grown, network, device="cpu")
    scores = model.bundle.solution.projection(features) @ expected.T
    order = [hidden.index(model.bundle.ids[row]) for row in model.candidates(hidden)]
    assert np.allclose(model.scores(features, hidden), scores[:, order], atol=1e-3)
    if name == "kin":  # by chance 2 % and 10 %; DGP knows nothing yet after two epochs
        own = scores[np.arange(25), np.arange(0, 50, 2)]
        rank = (scores > own[:, None]).sum(axis=1)
        assert (rank < 1).mean() > 0.3 and (rank < 5).mean() > 0.6


def test_old_classes_keep_their_classifiers_to_the_last_bit(bundle):
    grown = add(bundle, [Node("pup", "pup", DOG), Node("toy-pup", "toy pup", ["pup", POODLE])])
    assert np.array_equal(grown.solution.classifiers[: len(bundle)], bundle.solution.classifiers)
    assert np.array_equal(grown.solution.trust[: len(bundle)], bundle.solution.trust)
    assert grown.ids == (*bundle.ids, "pup", "toy-pup")
    assert set(grown.hierarchy.parents("toy-pup")) == {"pup", POODLE}
    assert len(bundle.added) == 0 and grown.path is None


def test_a_grown_bundle_is_saved_and_grows_on(bundle, tmp_path):
    grown = add(bundle, [Node("pup", ("pup", "whelp"), DOG, "a young dog", "small and fluffy")])
    again = Bundle.load(grown.save(tmp_path / "grown"))
    assert again.added == ["pup"] and again.hierarchy.definition("pup") == "a young dog"
    assert again.hierarchy.look("pup") == "small and fluffy"
    assert again.is_class[again.hierarchy.index("pup")]
    more = add(again, [Node("toy-pup", "toy pup", "pup")])
    assert more.hierarchy.parents("toy-pup") == ["pup"] and more.added == ["pup", "toy-pup"]


def test_added_classes_take_part_in_the_answers(bundle):
    model = Model(bundle, small_network(), device="cpu")
    assert model.add("forest giraffe", parents=[GIRAFFE]) == "forest-giraffe"
    assert "forest-giraffe" in {model.bundle.ids[row] for row in model.candidates("any")}
    features = np.random.default_rng(0).normal(size=(1, 8)).astype(np.float32)
    found = {label.id: label for label in model.answers(features, k=99)[0]}
    mine = found["forest-giraffe"]
    assert mine.score == pytest.approx(float(np.append(features, 1) @ model.bundle.solution.classifiers[-1]), abs=1e-5)
    assert (mine.name, mine.seen, mine.path[-2:]) == ("forest giraffe", False, ("giraffe", "forest giraffe"))
    assert mine.trust == pytest.approx(float(model.bundle.solution.trust[-1]))
    with pytest.raises(UnseenError, match="needs a name, or the id of a WordNet noun"):
        model.add(parents=GIRAFFE)


def test_the_network_alone_has_no_answer_for_new_classes():
    grown = add(small_bundle("network"), [Node("pup", "pup", DOG)])
    assert not grown.solution.answers[-1] and not grown.solution.classifiers[-1].any()


def test_a_new_class_without_a_vector_has_an_answer_only_if_training_would_have_given_it_one():
    features = SeenFeatures(np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32), np.arange(30) % len(SEEN))
    bundle = small_bundle("eszsl", features=features)
    grown = add(bundle, [Node("pup", "pup", DOG), Node("xqzvk", "xqzvk", DOG)])
    assert grown.solution.answers[-2:].tolist() == [True, False]
    again = small_bundle("eszsl", features=features, hierarchy=grown.hierarchy)
    assert np.array_equal(grown.solution.answers, again.solution.answers)


# -- what WordNet knows --------------------------------------------------------------------------------------------


def test_a_wordnet_id_is_enough(bundle):
    small = remove(bundle, [OKAPI])
    grown = add(small, [Node(OKAPI, ())])
    assert grown.hierarchy.lemmas[-1] == bundle.hierarchy.lemmas[bundle.hierarchy.index(OKAPI)]
    assert grown.hierarchy.parents(OKAPI) == bundle.hierarchy.parents(OKAPI)
    assert grown.vectors.matrix[-1] == pytest.approx(bundle.vectors.matrix[bundle.hierarchy.index(OKAPI)], abs=1e-6)


def test_parents_of_wordnet_come_along_and_only_connect(bundle):
    cougar, wildcat = "n02125311", "n02124623"
    leopard = "n02128385"
    big_cat = Hierarchy.wordnet().parents(leopard)[0]
    assert cougar not in bundle.hierarchy and big_cat not in bundle.hierarchy
    grown = add(bundle, [Node("kitten", "spotted kitten", leopard)])
    assert grown.connecting == [leopard, big_cat] and grown.added == ["kitten"]
    assert not grown.is_class[grown.hierarchy.indices([leopard, big_cat])].any()
    assert grown.is_class[-1]
    named = add(grown, [Node(leopard, ())])  # now it is wanted as a class
    assert named.is_class[grown.hierarchy.index(leopard)] and named.connecting == [big_cat]
    assert np.array_equal(named.solution.classifiers, grown.solution.classifiers)
    assert wildcat not in grown.hierarchy


def test_a_node_that_only_connects_can_become_a_class(bundle):
    entity = "n00001740"
    assert already_classes(bundle, [Node(entity, ()), Node(DOG, "dog"), Node("new", "new")]) == [DOG]
    assert add(bundle, [Node(entity, "Entity")]).is_class[bundle.hierarchy.index(entity)]
    physical = "n00001930"
    assert add(bundle, [Node(physical, (), entity, bundle.hierarchy.definition(physical))]).added == [physical]
    for other in (Node(entity, "ghost"), Node(physical, (), DOG), Node(entity, (), (), "a ghost")):
        with pytest.raises(UnseenError, match=f"{other.id} is in the hierarchy already, as .* give its id alone"):
            add(bundle, [other])


# -- text without the encoder --------------------------------------------------------------------------------------


def test_without_the_encoder_text_is_guessed_from_the_parents(bundle, monkeypatch):
    monkeypatch.setattr(grow, "encoder_installed", lambda: False)
    small = remove(bundle, [OKAPI])
    nodes = [Node("toy-pup", "toy pup", "pup"), Node("pup", "pup", [DOG, TABBY]), Node(OKAPI, ())]
    grown = add(small, nodes)
    words, text = grown.vectors.parts
    mean = text[grown.hierarchy.indices([DOG, TABBY])].mean(axis=0)
    assert text[grown.hierarchy.index("pup")] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert text[grown.hierarchy.index("toy-pup")] == pytest.approx(text[grown.hierarchy.index("pup")], abs=1e-6)
    assert text[-1] == pytest.approx(bundle.vectors.parts[1][bundle.hierarchy.index(OKAPI)], abs=1e-6)
    assert not np.allclose(words[-2], words[-3], atol=1e-3)
    assert grown.guessed == ["toy-pup", "pup"]
    assert remove(grown, ["pup"]).guessed == ["toy-pup"]
    assert bundle.guessed == []


# -- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "no class to add"),
        ([Node("x", "x")], "x: a new class needs a parent"),
        ([Node("x", (), DOG)], "x: a new class needs a name"),
        ([Node("x", "x", "dgo")], "x: its parent 'dgo' is not in the hierarchy"),
        ([Node(DOG, "dog", ZEBRA)], r"already a class of this bundle: n02084071 \(dog\)"),
        ([Node("x", "x", DOG), Node("x", "y", DOG)], "'x' is given twice"),
        ([Node("x", "x", "y"), Node("y", "y", "x")], "a cycle: x -> y -> x"),
        ([Node("x", "x", "x")], "its own parent: x"),
    ],
)
def test_mistakes_are_reported(bundle, nodes, says):
    with pytest.raises(UnseenError, match=says):
        add(bundle, nodes)


def test_a_file_of_vectors_that_moved_can_be_given_again(tmp_path):
    words = ["animal", "dog", "cat", "pup"]
    (tmp_path / "words.txt").write_text("".join(f"{word} {i} 1 {i * i}\n" for i, word in enumerate(words)))
    bundle = small_bundle("kin", str(tmp_path / "words.txt"))
    (tmp_path / "words.txt").rename(tmp_path / "moved.txt")
    node = Node("pup", "pup", DOG)
    with pytest.raises(UnseenError, match=r"'words.txt' came from .*words.txt, which is not here"):
        add(bundle, [node])
    grown = add(bundle, [node], vectors=tmp_path / "moved.txt")
    assert grown.vectors.matrix[-1] == pytest.approx(np.array([3, 1, 9]) / np.sqrt(91), abs=1e-6)
    (tmp_path / "moved.txt").write_text("pup 1 2 3\n")
    with pytest.raises(UnseenError, match="are not those the model was made with"):
        add(bundle, [node], vectors=tmp_path / "moved.txt")


# -- fewer classes, other names ------------------------------------------------------------------------------------


def test_removing_undoes_adding(bundle):
    grown = add(bundle, [Node("pup", "pup", DOG), Node("toy-pup", "toy pup", "pup")])
    back = remove(grown, ["pup", "toy-pup"])
    assert back.ids == bundle.ids and back.added == []
    assert np.array_equal(back.solution.classifiers, bundle.solution.classifiers)
    assert np.array_equal(back.seen, bundle.seen) and np.array_equal(back.vectors.matrix, bundle.vectors.matrix)


def test_children_of_a_removed_class_go_to_its_parents(bundle, tmp_path):
    parents = bundle.hierarchy.parents(DOG)
    small = remove(bundle, [DOG])
    assert set(parents) <= set(small.hierarchy.parents(POODLE))
    assert small.seen_ids == list(SEEN)
    again = Bundle.load(small.save(tmp_path / "small"))
    row = again.hierarchy.index(POODLE)
    assert np.array_equal(again.solution.classifiers[row], bundle.solution.classifiers[bundle.hierarchy.index(POODLE)])


def test_seen_classes_cannot_be_removed(bundle):
    with pytest.raises(UnseenError, match=f"{HORSE}: seen classes belong to the network"):
        remove(bundle, [DOG, HORSE])
    with pytest.raises(UnseenError, match="1 of 1 ids are not in this hierarchy: none"):
        remove(bundle, ["none"])


def test_renaming_changes_the_name_alone(bundle, tmp_path):
    renamed = rename(bundle, OKAPI, ["forest giraffe", "okapi"])
    assert Bundle.load(renamed.save(tmp_path / "r")).hierarchy.lemmas[renamed.hierarchy.index(OKAPI)] == (
        "forest giraffe",
        "okapi",
    )
    assert np.array_equal(renamed.solution.classifiers, bundle.solution.classifiers)
    assert bundle.hierarchy.name(OKAPI) == "okapi"
    with pytest.raises(UnseenError, match="needs one or more names"):
        rename(bundle, OKAPI, [" "])
    with pytest.raises(UnseenError, match="'none' is not an id"):
        rename(bundle, "none", ["x"])
