"""The vectors of all classes together: coverage, what users may name, and reloading."""

from __future__ import annotations

import numpy as np
import pytest

from support.words import classes, lengths, reloaded, toy_vectors
from unseen.util.errors import UnseenError
from unseen.vectors.class_vectors import (
    Coverage,
    class_vectors,
    load_vectors,
    vectors_from_provenance,
)
from unseen.vectors.sources import CallableVectors, WordVectors

# --- all classes together ---------------------------------------------------------------------------------------------


def test_parts_have_unit_rows_and_the_matrix_joins_them():
    hierarchy = classes(("hot dog",), ("nothing",), ("cream",))
    joined = class_vectors(hierarchy, [toy_vectors(), CallableVectors(lengths)])
    assert joined.names == ("toy", "lengths")
    np.testing.assert_allclose(np.linalg.norm(joined.parts[0], axis=1), [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(joined.parts[1], axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(joined.parts[0][0], np.array([1, 1, 0]) / np.sqrt(2), atol=1e-6)
    assert joined.matrix.shape == (3, 6)
    assert joined.matrix.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(joined.matrix, axis=1), [1, np.sqrt(0.5), 1], atol=1e-6)
    np.testing.assert_allclose(joined.matrix[:, :3] * np.sqrt(2), joined.parts[0], atol=1e-6)
    alone = class_vectors(hierarchy, toy_vectors())
    assert alone.matrix is alone.parts[0]


def test_huge_and_tiny_vectors_are_normalised():
    source = WordVectors(["huge", "tiny"], np.array([[3e38, 3e38], [1e-30, 0]], np.float32))
    np.testing.assert_allclose(
        class_vectors(classes(("huge",), ("tiny",)), source).matrix, [[0.5**0.5] * 2, [1, 0]], atol=1e-6
    )


def test_a_source_of_ones_own_is_checked():
    class Own:
        name, dim, provenance = "own", 2, {"name": "own"}

        def encode(self, hierarchy, rows=None):
            return self.answer

    own = Own()
    own.answer = np.ones((1, 2))
    assert load_vectors(own) == [own]
    np.testing.assert_allclose(class_vectors(classes(("a",)), own).matrix, [[0.5**0.5] * 2])
    own.answer = np.array([[np.inf, 1]])
    with pytest.raises(UnseenError, match="own: the vectors have a NaN or infinite number"):
        class_vectors(classes(("a",)), own)
    with pytest.raises(UnseenError, match="No vectors were named"):
        class_vectors(classes(("a",)), [])


def test_coverage_counts_classes_and_words():
    hierarchy = classes(("dog",), ("nothing", "Nada"), ("hot nothing",), ("nothing-dog",), ("quark",))
    coverage = class_vectors(hierarchy, toy_vectors()).coverage
    assert (coverage.classes, coverage.zero) == (5, ["c1", "c4"])
    assert coverage.missed_words == {"nothing": 2, "nada": 1, "quark": 1}
    text = coverage.describe()
    assert text.startswith(
        "2 of 5 classes have no vector (nothing, quark); 3 words were not found, most frequent: nothing (2)"
    )
    joined = class_vectors(hierarchy, [toy_vectors(), CallableVectors(lengths)]).coverage
    assert joined.zero == []
    assert joined.describe().startswith("All 5 classes have a vector; without one by source: 2 in toy, 0 in lengths")
    assert Coverage(3, []).describe() == "All 3 classes have a vector."
    assert Coverage(classes=3, zero=["n1"], missed_words={}).describe() == "1 of 3 classes have no vector (n1)."
    assert class_vectors(hierarchy, toy_vectors("authors")).coverage.missed_words["Nada"] == 1


# --- what users may name ----------------------------------------------------------------------------------------------


def test_names_files_and_sums(file):
    assert [source.name for source in load_vectors("glove")] == ["glove"]
    assert load_vectors("glove")[0].provenance["mode"] == "lower"
    assert load_vectors("glove@authors")[0].provenance["mode"] == "authors"
    assert [source.name for source in load_vectors(f"glove + {file}@authors")] == ["glove", "toy.txt"]
    assert [source.name for source in load_vectors(file)] == ["toy.txt"]
    assert [source.name for source in load_vectors(lengths)] == ["lengths"]
    assert [source.name for source in load_vectors(["glove", lengths, toy_vectors()])] == ["glove", "lengths", "toy"]
    plus = file.rename(file.with_name("a+b@c.txt"))
    assert [source.name for source in load_vectors(str(plus))] == ["a+b@c.txt"]


def test_a_file_among_the_users_assets_needs_no_path(file, monkeypatch):
    monkeypatch.setenv("UNSEEN_ASSETS", str(file.parent))
    monkeypatch.chdir("/")
    assert load_vectors("toy.txt")[0].provenance["source"] == str(file)


@pytest.mark.parametrize("spec", ["glvoe", "no/such/file.txt", "glove+", "", "text@authors", "glove@upper"])
def test_an_unknown_name_lists_the_choices(spec):
    with pytest.raises(UnseenError, match=r"glove \(built-in.*text \(built-in.*a file of word vectors.*joined by"):
        load_vectors(spec)


# --- reloading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["lower", "authors"])
def test_sources_come_back_from_their_provenance(file, mode):
    hierarchy = classes(("Hot dog",), ("Paris",))
    for source in (WordVectors.builtin(mode), WordVectors.load(file, mode)):
        again = reloaded(source)
        assert again.provenance == source.provenance
        np.testing.assert_array_equal(again.encode(hierarchy), source.encode(hierarchy))


def test_other_vectors_than_the_bundles_are_refused(file, tmp_path):
    source = WordVectors.load(file)
    moved = file.rename(tmp_path / "moved.txt")
    with pytest.raises(UnseenError, match="which is not here"):
        reloaded(source)
    assert len(reloaded(source, moved)) == len(source)
    moved.write_text("dog 1 2 3\n")
    with pytest.raises(UnseenError, match="not those the model was made with: sha256"):
        reloaded(source, moved)
    with pytest.raises(UnseenError, match="not those the model was made with"):
        vectors_from_provenance({**WordVectors.builtin().provenance, "sha256": "0" * 64})


def test_a_callable_must_be_given_again():
    source = CallableVectors(lengths)
    with pytest.raises(UnseenError, match="Give them again"):
        reloaded(source)
    assert reloaded(source, lengths).provenance == source.provenance
    with pytest.raises(UnseenError, match="dim was 3, now 1"):
        reloaded(source, lambda names: np.ones((len(names), 1)))
    with pytest.raises(UnseenError, match="Give them again"):
        vectors_from_provenance({"kind": "surprise"})
