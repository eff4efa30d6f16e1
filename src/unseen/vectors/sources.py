"""Sources of class vectors: word vectors and any callable; `text_encoder` has sentence encodings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unseen import data as assets
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError
from unseen.util.files import sha256
from unseen.vectors.files import load_vector_file, split_member

if TYPE_CHECKING:  # importing scipy takes a while: it waits until words are looked up
    from scipy.sparse import csr_array

GLOVE = "glove-6b-100d.npz"
MODES = ("lower", "authors")
REMEMBERED = 1 << 18  # words whose rows are kept


class VectorSource(Protocol):
    """A source of class vectors. `provenance` is plain JSON: name, source, sha256, mode, dim."""

    @property
    def name(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def provenance(self) -> dict[str, Any]: ...

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Raw float32 vectors of these rows of the hierarchy (all by default), n x S; zero for unknown classes."""
        ...


class WordVectors:
    """A class is the mean over its lemmas in a vocabulary:

        v(class) = mean of v(lemma);   v(lemma) = its own vector, else the mean of v(word) over its words
                                       v(word)  = its own vector, else the mean over its hyphen parts

    where every mean leaves out missing words. A lemma is first looked up as one token joined by '_'. Mode "lower"
    looks everything up in lower case, then as written; "authors" as written only, like the authors' code.

    `words` are the V words of the vocabulary, `vectors` has a row for each (V x S), `name` is what messages and bundles
    call them, `provenance` says where they came from, as plain JSON values.

    >>> words = WordVectors(["polar", "bear"], np.array([[0.0, 2.0], [4.0, 0.0]]))
    >>> words.vector("Polar bear")
    array([2., 1.], dtype=float32)
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
        if np.ndim(vectors) != 2 or len(vectors) != len(self.words):
            shape = np.shape(vectors)
            raise UnseenError(f"{name}: {len(self.words):,} words need a matrix with a row for each, not {shape}.")
        self.mode, self.name, self.dim = mode, name, int(vectors.shape[1])
        origin = {"kind": "arrays", "source": "given as arrays", "sha256": None, **(provenance or {})}
        self.provenance = {**origin, "name": name, "mode": mode, "dim": self.dim}
        self._rows = {word: row for row, word in reversed(list(enumerate(self.words)))}  # of equal words the first
        self._joined = any("_" in word for word in self._rows)  # whether a name of several words may be one of them
        self._parts: dict[str, list[int]] = {}  # of words that were looked up: names share most of theirs

    @staticmethod
    def builtin(mode: str = "lower") -> WordVectors:
        """GloVe 6B, 100-d, for every word of WordNet's nouns; read once."""
        return _glove(mode)

    @classmethod
    def load(cls, path: str | Path, mode: str = "lower", show_progress: bool = True) -> WordVectors:
        """A text file with a word and its numbers on each line, perhaps in gzip or zip: 'archive.zip#file'."""
        table, (file, member) = load_vector_file(path, show_progress), split_member(path)
        source = f"{file.absolute()}#{member}" if member else str(file.absolute())
        facts = {"kind": "file", "source": source, "sha256": table.sha256}
        facts |= {"words": len(table.words), "duplicates": table.duplicates}
        return cls(table.words, table.vectors, mode, Path(member or file).name, facts)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return self._row(word) is not None

    def vector(self, text: str) -> np.ndarray:
        """The vector of a class with this name alone, float32 S; zero if the vocabulary has none of its words."""
        return self._mean([(text,)])[0]

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        return self._mean(_lemmas(hierarchy, rows))

    def missed_words(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> Counter[str]:
        """Each word that the vocabulary lacks -> the number of classes whose names have it."""
        missed = Counter()
        for lemmas in _lemmas(hierarchy, rows):
            words = (word for lemma in lemmas if self._joined_row(lemma) is None for word in _words(lemma))
            lost = (word for word in words if not self._word(word))
            missed.update(list(dict.fromkeys(map(str.lower, lost) if self.mode == "lower" else lost)))
        return missed

    def _mean(self, classes: Sequence[Sequence[str]]) -> np.ndarray:
        """The rule is linear in the word vectors, so the vectors of n classes are one sparse product."""
        weights, used = self._weights(classes)
        known = checked(np.asarray(self.vectors[used], np.float32), (len(used), self.dim), self.name)
        return np.asarray(weights @ known, np.float32)

    def _weights(self, classes: Sequence[Sequence[str]]) -> tuple[csr_array, np.ndarray]:
        """Weights, n x U sparse float32, whose rows sum to 1 (0 for unknown classes), and the U rows they are for."""
        from scipy.sparse import csr_array

        columns: list[int] = []
        values: list[float] = []
        ends = [0]
        for lemmas in classes:
            known = [shares for shares in map(self._lemma, lemmas) if shares]
            for shares in known:
                for row, share in shares:
                    columns.append(row)
                    values.append(share / len(known))
            ends.append(len(columns))
        used, inverse = np.unique(np.array(columns, np.int64), return_inverse=True)
        matrix = csr_array((np.array(values, np.float32), inverse, np.array(ends)), shape=(len(classes), len(used)))
        return matrix, used

    def _lemma(self, lemma: str) -> list[tuple[int, float]]:
        """(row, weight) pairs whose weights sum to 1; [] for an unknown lemma."""
        row = self._joined_row(lemma)
        if row is not None:
            return [(row, 1.0)]
        words = [parts for parts in map(self._word, _words(lemma)) if parts]
        return [(row, 1 / (len(words) * len(parts))) for parts in words for row in parts]

    def _joined_row(self, lemma: str) -> int | None:
        token = lemma.replace(" ", "_")
        return None if "_" in token and not self._joined else self._row(token)

    def _word(self, word: str) -> list[int]:
        """The rows whose mean a word is: its own, or the rows of its hyphen parts."""
        rows = self._parts.get(word)
        if rows is None:
            row = self._row(word)
            parts = [word] if row is not None else word.split("-") if "-" in word else []
            rows = [row for part in parts if (row := self._row(part)) is not None]
            if len(self._parts) < REMEMBERED:
                self._parts[word] = rows
        return rows

    def _row(self, token: str) -> int | None:
        """The vocabulary's row of exactly this token."""
        row = self._rows.get(token.lower()) if self.mode == "lower" else None
        return self._rows.get(token) if row is None else row


@cache
def _glove(mode: str) -> WordVectors:
    path = assets.data_file(GLOVE)
    with np.load(path, allow_pickle=False) as data:
        words, vectors = data["words"].tobytes().decode("utf-8").split("\n"), data["vectors"]
    provenance = {"kind": "glove", "source": f"built-in {GLOVE}", "sha256": sha256(path)}
    return WordVectors(words, vectors, mode, "glove", provenance)


class CallableVectors:
    """Vectors from any callable: the names of n classes -> an n x S matrix."""

    def __init__(self, function: Callable[[list[str]], Any], name: str | None = None):
        self.function = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self._dim: int | None = None

    @property
    def dim(self) -> int:
        return self._call(["entity"]).shape[1] if self._dim is None else self._dim

    @property
    def provenance(self) -> dict[str, Any]:
        origin = {"kind": "callable", "name": self.name, "source": f"callable {self.name}", "sha256": None}
        return origin | {"mode": "name", "dim": self.dim}

    def encode(self, hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        return self._call([names[0] for names in _lemmas(hierarchy, rows)])

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
        expected = f"{shape[0]:,} x {shape[1] or 'S'} numbers"
        raise UnseenError(f"{name}: {expected} were expected, not an array {matrix.shape}.")
    if not np.isfinite(matrix).all():
        row = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise UnseenError(f"{name}: the vectors have a NaN or infinite number, first in row {row}.")
    return matrix


def _lemmas(hierarchy: Hierarchy, rows: Sequence[int] | np.ndarray | None) -> Sequence[Sequence[str]]:
    if rows is None:
        return hierarchy.lemmas
    return [hierarchy.lemmas[row] for row in np.asarray(rows, np.int64).tolist()]


def _words(lemma: str) -> list[str]:
    return lemma.replace("_", " ").split()
