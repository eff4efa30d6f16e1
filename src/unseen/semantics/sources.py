"""What gives classes their vectors: words of a vocabulary, or any callable. `text_encoder` has a third, sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unseen import assets
from unseen.errors import UnseenError
from unseen.runtime.files import sha256
from unseen.semantics.text_encoder import sentence
from unseen.semantics.vector_cache import load_vector_file, split_member
from unseen.semantics.word_lookup import MODES, WordLookup

if TYPE_CHECKING:
    from unseen.taxonomy import Taxonomy

GLOVE = "glove-6b-100d.npz"


class Semantics(Protocol):
    """What gives classes their vectors. `provenance` is plain JSON: name, source, sha256, mode, dim."""

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def provenance(self) -> dict[str, Any]: ...

    def encode(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Raw float32 vectors of these rows of the taxonomy (all by default), n x S; zero where nothing is known."""
        ...


class WordVectors:
    """A class is the mean over those of its lemmas that are found in a vocabulary:

        v(class) = mean of v(lemma);   v(lemma) = its own vector, else the mean of v(word) over its words
                                       v(word)  = its own vector, else the mean over its hyphen parts

    where every mean leaves out what is not found. A lemma is first looked up whole, as one token joined by '_'. Mode
    "lower" looks everything up in lower case, then as written; "authors" as written only, like the authors' code.

    Args:
        words: The V words of the vocabulary.
        vectors: V x S, a row for each word.
        mode: "lower" or "authors".
        name: What messages and bundles call these vectors.
        provenance: Where they came from, as plain JSON values.

    >>> import numpy as np
    >>> from unseen import WordVectors
    >>> words = WordVectors(["polar", "bear"], np.array([[0.0, 2.0], [4.0, 0.0]]))
    >>> words.vector("Polar bear")
    array([2., 1.], dtype=float32)
    >>> "panda" in words
    False
    """

    def __init__(
        self,
        words: Iterable[str],
        vectors: np.ndarray,
        mode: str = "lower",
        name: str = "words",
        provenance: Mapping[str, Any] | None = None,
    ):
        if mode not in MODES:
            raise UnseenError(f"There is no lookup mode {mode!r}. Choose one of: {', '.join(MODES)}.")
        self.words = list(words)
        self.vectors = vectors
        if getattr(vectors, "ndim", 0) != 2 or len(vectors) != len(self.words):
            shape = getattr(vectors, "shape", type(vectors).__name__)
            raise UnseenError(f"{name}: {len(self.words):,} words need a matrix with a row for each, not {shape}.")
        self.mode, self.name, self.dim = mode, name, int(vectors.shape[1])
        own = {"kind": "arrays", "source": "given as arrays", "sha256": None, **(provenance or {})}
        self.provenance = {**own, "name": name, "mode": mode, "dim": self.dim}
        self._lookup = WordLookup(self.words, mode)

    @classmethod
    def builtin(cls, mode: str = "lower") -> WordVectors:
        """GloVe 6B, 100-d, for every word of WordNet's nouns."""
        path = assets.data_file(GLOVE)
        with np.load(path, allow_pickle=False) as data:
            words, vectors = data["words"].tobytes().decode("utf-8").split("\n"), data["vectors"]
        provenance = {"kind": "glove", "source": f"built-in {GLOVE}", "sha256": sha256(path)}
        return cls(words, vectors, mode, "glove", provenance)

    @classmethod
    def load(cls, path: str | Path, mode: str = "lower", show_progress: bool = True) -> WordVectors:
        """A file in GloVe, word2vec (text or binary) or fastText format, perhaps in gzip or zip: 'archive.zip#file'."""
        table = load_vector_file(path, show_progress)
        provenance = {
            "kind": "file",
            "source": table.source,
            "sha256": table.sha256,
            "format": table.format,
            "words": len(table.words),
            "duplicates": table.duplicates,
        }
        file, member = split_member(path)
        return cls(table.words, table.vectors, mode, Path(member or file).name, provenance)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self._lookup.row(word) is not None

    def vector(self, text: str) -> np.ndarray:
        """The vector of one name, as of a class with that lemma alone; zero if nothing of it is found. float32 S."""
        return self._mean([(text,)])[0]

    def encode(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        return self._mean(_lemmas(taxonomy, rows))

    def missed_words(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> Counter:
        """The words that were not found -> in how many classes."""
        return self._lookup.missed(_lemmas(taxonomy, rows))

    def reach(self, taxonomy: Taxonomy) -> tuple[np.ndarray, Counter]:
        """Which classes have a word with a vector (N, bool), and `missed_words`: much quicker than `encode`."""
        owner, word, rows, missed = self._lookup.reach(taxonomy.lemmas)
        used, place = np.unique(np.array([row for found in rows for row in found], np.int64), return_inverse=True)
        vectors = checked(np.asarray(self.vectors[used], np.float32), (len(used), self.dim), self.name)
        has_vector, known = np.zeros(len(rows), bool), np.zeros(len(taxonomy), bool)
        lemma = np.repeat(np.arange(len(rows)), [len(found) for found in rows])
        has_vector[lemma[np.any(vectors, axis=1)[place]]] = True
        known[owner[has_vector[word]]] = True
        return known, missed

    def _mean(self, classes: Sequence[Sequence[str]]) -> np.ndarray:
        weights, used = self._lookup.weights(classes)
        known = checked(np.asarray(self.vectors[used], np.float32), (len(used), self.dim), self.name)
        return np.asarray(weights @ known, np.float32)


class CallableVectors:
    """Vectors from any callable: a list of n names -> an n x S matrix.

    `given` says what it is called with: "name" (the first lemma of each class), "lemmas" ("dog, domestic dog, Canis
    familiaris") or "text" ("dog, domestic dog: a member of the genus ...").
    """

    def __init__(self, function: Callable[[list[str]], Any], name: str | None = None, given: str = "name"):
        if not callable(function):
            raise UnseenError(f"A callable (names -> matrix) was expected, not {type(function).__name__}.")
        if given not in ("name", "lemmas", "text"):
            raise UnseenError(f"A callable can be given 'name', 'lemmas' or 'text', not {given!r}.")
        self.function, self.given = function, given
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self._dim: int | None = None

    @property
    def dim(self) -> int:
        if self._dim is None:
            return self._call(["entity"]).shape[1]
        return self._dim

    @property
    def provenance(self) -> dict:
        return {
            "kind": "callable",
            "name": self.name,
            "source": f"callable {self.name}",
            "sha256": None,
            "mode": self.given,
            "dim": self.dim,
        }

    def encode(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        if self.given == "text":
            chosen = range(len(taxonomy.ids)) if rows is None else rows
            return self._call([sentence(taxonomy, int(row)) for row in chosen])
        lemmas = _lemmas(taxonomy, rows)
        return self._call([names[0] if self.given == "name" else ", ".join(names) for names in lemmas])

    def _call(self, names: list[str]) -> np.ndarray:
        answer = self.function(names)
        if hasattr(answer, "detach"):  # a torch tensor, perhaps on a GPU
            answer = answer.detach().cpu()
        try:
            matrix = np.asarray(answer, np.float32)
        except (TypeError, ValueError) as error:
            raise UnseenError(f"{self.name}: its answer is not a matrix of numbers ({error}).") from error
        if self._dim is None and matrix.ndim == 2:
            self._dim = matrix.shape[1]
        return checked(matrix, (len(names), self._dim), self.name)


def checked(matrix: np.ndarray, shape: tuple[int, int | None], name: str) -> np.ndarray:
    """The matrix, if it has that shape and only finite numbers."""
    if matrix.ndim != 2 or matrix.shape != shape or not matrix.shape[1]:
        raise UnseenError(
            f"{name}: {shape[0]:,} x {shape[1] or 'S'} numbers were expected, not an array {matrix.shape}."
        )
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise UnseenError(f"{name}: the vectors have a NaN or infinite number, first in row {row}.")
    return matrix


def _lemmas(taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None) -> Sequence[Sequence[str]]:
    if rows is None:
        return taxonomy.lemmas
    return [taxonomy.lemmas[row] for row in np.asarray(rows, np.int64).tolist()]
