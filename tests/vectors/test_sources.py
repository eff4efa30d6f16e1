"""Sources of vectors: the rule for words by hand in both modes, arrays, files and callables."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from support.words import VOCABULARY, classes, lengths, toy_vectors
from unseen import data as assets
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError
from unseen.util.files import sha256
from unseen.vectors.sources import CallableVectors, WordVectors

# --- the rule ---------------------------------------------------------------------------------------------------------

BY_HAND = [  # lemmas of a class, its vector in lower mode, its vector in the authors' mode
    (("dog",), [1, 0, 0], [1, 0, 0]),
    (("Dog",), [1, 0, 0], [9, 9, 9]),
    (("Paris",), [7, 0, 7], [7, 0, 7]),  # lower-cased it is missing; then it is taken as written
    (("HOT",), [0, 1, 0], [0, 0, 0]),
    (("dog", "hot"), [0.5, 0.5, 0], [0.5, 0.5, 0]),
    (("dog", "unknown"), [1, 0, 0], [1, 0, 0]),  # a lemma not matrix is left out of the mean, not counted as zero
    (("hot dog",), [0.5, 0.5, 0], [0.5, 0.5, 0]),
    (("hot_dog",), [0.5, 0.5, 0], [0.5, 0.5, 0]),
    (("ice cream",), [0, 0, 5], [0, 0, 5]),  # one token of the vocabulary
    (("Ice cream",), [0, 0, 5], [4, 4, 4]),  # the authors find cream alone
    (("unknown dog",), [1, 0, 0], [1, 0, 0]),  # so is a word
    (("jack-o-lantern",), [0, 3, 3], [0, 3, 3]),  # and a hyphen part
    (("hot jack-lantern",), [0, 2, 1.5], [0, 2, 1.5]),  # mean of hot and (jack + lantern) / 2
    (("T-shirt",), [3, 0, 0], [0, 0, 0]),
    (("hot dog", "ice cream", "nothing at all"), [0.25, 0.25, 2.5], [0.25, 0.25, 2.5]),
    (("nothing",), [0, 0, 0], [0, 0, 0]),
    (("-",), [0, 0, 0], [0, 0, 0]),
]


@pytest.mark.parametrize("mode", ["lower", "authors"])
def test_class_vectors_by_hand(mode):
    hierarchy = classes(*(lemmas for lemmas, _, _ in BY_HAND))
    expected = np.array([lower if mode == "lower" else authors for _, lower, authors in BY_HAND], np.float32)
    matrix = toy_vectors(mode).encode(hierarchy)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix, expected, atol=1e-6)
    rows = np.array([12, 0, 12])
    np.testing.assert_array_equal(toy_vectors(mode).encode(hierarchy, rows), matrix[rows])
    np.testing.assert_allclose(toy_vectors(mode).vector("hot dog"), [0.5, 0.5, 0])
    assert not toy_vectors(mode).vector("nothing").any()


def plain_rule(table: dict[str, np.ndarray], lemmas: tuple[str, ...]) -> np.ndarray | None:
    """The same in the plainest words, case kept: means over what is matrix."""

    def mean(matrix):
        matrix = [vector for vector in matrix if vector is not None]
        return np.mean(matrix, axis=0) if matrix else None

    def word(text):
        return table[text] if text in table else mean(table.get(part) for part in text.split("-"))

    def lemma(text):
        whole = text.replace(" ", "_")
        return table[whole] if whole in table else mean(map(word, text.split(" ")))

    return mean(map(lemma, lemmas))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["lower", "authors"])
def test_all_of_imagenet_agrees_with_the_plain_rule(mode):
    hierarchy, source = Hierarchy.imagenet(), WordVectors.builtin(mode)
    table = dict(zip(source.words, source.vectors.astype(np.float64), strict=True))
    matrix = source.encode(hierarchy)
    for row in range(0, len(hierarchy), 7):
        lemmas = hierarchy.lemmas[row]
        expected = plain_rule(table, tuple(map(str.lower, lemmas)) if mode == "lower" else lemmas)
        np.testing.assert_allclose(matrix[row], np.zeros(100) if expected is None else expected, atol=2e-6)


@pytest.mark.parametrize(("mode", "without"), [("lower", 1349), ("authors", 2082)])
def test_how_many_imagenet_classes_have_no_vector(mode, without):
    hierarchy = Hierarchy.imagenet()
    matrix = WordVectors.builtin(mode).encode(hierarchy, hierarchy.indices(assets.imagenet_21k()))
    assert matrix.shape == (21842, 100)
    assert (~matrix.any(axis=1)).sum() == without


@pytest.mark.slow
def test_nothing_here_imports_torch():
    code = "import sys, unseen; unseen.load_vectors('glove'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- word vectors from arrays and files -------------------------------------------------------------------------------


def test_word_vectors_of_arrays_are_checked():
    with pytest.raises(UnseenError, match=r"2 words need a matrix with a row for each, not \(3, 4\)"):
        WordVectors(["a", "b"], np.ones((3, 4)))
    with pytest.raises(UnseenError, match="Choose one of: lower, authors"):
        WordVectors(["a"], np.ones((1, 4)), mode="upper")
    with pytest.raises(UnseenError, match="NaN or infinite"):
        WordVectors(["a"], np.full((1, 4), np.nan)).encode(classes(("a",)))
    first = WordVectors(["a", "a"], np.array([[1.0], [2.0]]))
    assert first.vector("a") == [1]


def test_a_file_is_looked_up_like_the_built_in(file):
    loaded = WordVectors.load(file)
    hierarchy = classes(*(lemmas for lemmas, _, _ in BY_HAND))
    np.testing.assert_array_equal(loaded.encode(hierarchy), toy_vectors().encode(hierarchy))
    assert len(loaded) == len(VOCABULARY)
    assert "HOT" in loaded
    assert "HOT" not in WordVectors.load(file, mode="authors")
    expected = {
        "kind": "file",
        "name": "toy.txt",
        "source": str(file),
        "dim": 3,
        "mode": "lower",
        "sha256": sha256(file),
    }
    assert expected.items() <= loaded.provenance.items()


# --- callables --------------------------------------------------------------------------------------------------------


def test_a_callable_is_given_names():
    hierarchy = Hierarchy(
        ["x", "y"], [("hot dog", "wiener"), ("tea",)], [[], ["x"]], definitions={"x": "a sausage"}, source={"kind": "t"}
    )
    np.testing.assert_array_equal(CallableVectors(lengths).encode(hierarchy), [[7, 1, 0], [3, 0, 0]])
    np.testing.assert_array_equal(CallableVectors(lengths).encode(hierarchy, [1]), [[3, 0, 0]])
    source = CallableVectors(lengths)
    assert (source.name, source.dim) == ("lengths", 3)
    assert json.loads(json.dumps(source.provenance))["kind"] == "callable"


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (lambda names: np.ones((len(names) + 1, 3)), "2 x 3 numbers were expected"),
        (lambda names: np.ones(len(names)), "2 x S numbers were expected"),
        (lambda names: np.ones((len(names), 0)), "expected"),
        (lambda names: np.full((len(names), 3), np.nan), "NaN or infinite number, first in row 0"),
        (lambda names: np.array([[1, 2], [3, np.inf]]), "first in row 1"),
        (lambda names: [[1, 2], [3]], "not a matrix of numbers"),
        (lambda names: "words", "not a matrix of numbers"),
    ],
)
def test_a_callable_with_a_wrong_answer_is_refused(answer, what):
    with pytest.raises(UnseenError, match=what):
        CallableVectors(answer).encode(classes(("a",), ("b",)))
