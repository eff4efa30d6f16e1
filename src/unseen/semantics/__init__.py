"""Class names -> class vectors: built-in GloVe and text encodings, files of word vectors, any callable.

vectors = class_vectors(Taxonomy.imagenet(), load_vectors("glove+text"))
vectors.matrix                          # N x S, unit rows, zero where nothing is known
print(vectors.coverage.describe())      # which classes have no vector, which words were missed
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unseen import assets
from unseen.errors import UnseenError
from unseen.semantics.text_encoder import TextEncodings
from unseen.semantics.vector_cache import load_vector_file, split_member
from unseen.semantics.word_lookup import MODES, WordLookup

if TYPE_CHECKING:
    from unseen.taxonomy import Taxonomy

GLOVE = "glove-6b-100d.npz"
OPTIONS = (
    "glove (built-in GloVe 6B, 100-d), text (built-in sentence encodings), a file of word vectors (GloVe, word2vec or "
    "fastText; an archive's file as archive.zip#file), or several joined by '+', such as glove+text; "
    "'@authors' behind a name or file keeps capitals, as the paper's authors do"
)


class Semantics(Protocol):
    """What gives classes their vectors. `provenance` is plain JSON: name, source, sha256, mode, dim."""

    name: str
    dim: int
    provenance: dict

    def encode(self, taxonomy: Taxonomy, rows: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """Raw float32 vectors of these rows of the taxonomy (all by default), n x S; zero where nothing is known."""
        ...


class WordVectors:
    """A class is the mean over those of its lemmas that are found in a vocabulary:

        v(class) = mean of v(lemma);   v(lemma) = its own vector, else the mean of v(word) over its words
                                       v(word)  = its own vector, else the mean over its hyphen parts

    where every mean leaves out what is not found. A lemma is first looked up whole, as one token joined by '_'. Mode
    "lower" looks everything up in lower case, then as written; "authors" as written only, like the authors' code.
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
            raise UnseenError(f"There is no mode {mode!r} of looking words up. Choose one of: {', '.join(MODES)}.")
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
        provenance = {"kind": "glove", "source": f"built-in {GLOVE}", "sha256": assets.sha256(path)}
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
            self._call(["entity"])
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
            from unseen.semantics.text_encoder import sentence

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


@dataclass(frozen=True)
class Coverage:
    """How far the vectors reach. `zero`: ids without any vector, `zero_names` their names; `missed_words`: a word -> in
    how many classes it was not found; `zero_by_part`: a source -> how many classes it knows nothing of."""

    classes: int
    zero: list[str]
    missed_words: Mapping[str, int] = field(default_factory=Counter)
    zero_names: Sequence[str] = ()
    zero_by_part: Mapping[str, int] = field(default_factory=dict)

    def describe(self, words: int = 8) -> str:
        """A few sentences for the user: classes without a vector, and the words to blame."""
        if self.zero:
            some = ", ".join((self.zero_names or self.zero)[:5]) + (", ..." if len(self.zero) > 5 else "")
            text = f"{len(self.zero):,} of {self.classes:,} classes have no vector ({some})"
        else:
            text = f"All {self.classes:,} classes have a vector"
        if len(self.zero_by_part) > 1 and any(self.zero_by_part.values()):
            by_part = ", ".join(f"{count:,} in {name}" for name, count in self.zero_by_part.items())
            text += f"; without one by source: {by_part}"
        if self.missed_words:
            listed = ", ".join(f"{word} ({count:,})" for word, count in Counter(self.missed_words).most_common(words))
            text += f"; {len(self.missed_words):,} words were not found, most frequent: {listed}"
        return text + "."


@dataclass(frozen=True)
class ClassVectors:
    """The vectors of a taxonomy's N classes, one part (N x S_i float32) a source; rows have length 1, or 0."""

    parts: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    provenance: Sequence[dict]
    coverage: Coverage | None = None

    @property
    def matrix(self) -> np.ndarray:
        """N x S: the part itself; of several the concatenation / sqrt(their number), so that rows keep length 1."""
        if len(self.parts) == 1:
            return self.parts[0]
        return np.concatenate(self.parts, axis=1) / np.float32(np.sqrt(len(self.parts)))


def class_vectors(taxonomy: Taxonomy, semantics: Semantics | Sequence[Semantics]) -> ClassVectors:
    """The vectors of every class of the taxonomy from one source or several."""
    sources = [semantics] if _is_source(semantics) else list(semantics)
    if not sources:
        raise UnseenError(f"No vectors were named. Choose: {OPTIONS}.")
    parts, missed, zero_by_part = [], Counter(), {}
    without = np.ones(len(taxonomy.ids), bool)
    for source in sources:
        raw = checked(np.asarray(source.encode(taxonomy), np.float32), (len(taxonomy.ids), source.dim), source.name)
        length = np.linalg.norm(raw.astype(np.float64), axis=1, keepdims=True)
        parts.append((raw / np.where(length > 0, length, 1)).astype(np.float32))
        without &= length[:, 0] == 0
        zero_by_part[source.name] = int((length == 0).sum())
        if hasattr(source, "missed_words"):
            missed.update(source.missed_words(taxonomy))
    empty = np.flatnonzero(without).tolist()
    zero, zero_names = [taxonomy.ids[row] for row in empty], [taxonomy.lemmas[row][0] for row in empty]
    coverage = Coverage(len(taxonomy.ids), zero, missed, zero_names, zero_by_part)
    names = tuple(source.name for source in sources)
    return ClassVectors(tuple(parts), names, [dict(source.provenance) for source in sources], coverage)


def _is_source(thing: Any) -> bool:
    if isinstance(thing, (WordVectors, TextEncodings, CallableVectors)):
        return True
    return all(hasattr(thing, part) for part in ("name", "dim", "provenance", "encode"))


def load_vectors(spec: str | Path | Semantics | Callable | Sequence) -> list[Semantics]:
    """What the user named -> the sources: "glove", "text", a file, "glove+text"; or sources, callables, or a list."""
    if _is_source(spec):
        return [spec]
    if callable(spec):
        return [CallableVectors(spec)]
    if isinstance(spec, (str, Path)):
        text = str(spec)
        names = [text] if Path(text).expanduser().exists() else text.split("+")
        return [_load_one(name.strip()) for name in names]
    return [source for part in spec for source in load_vectors(part)]


def _load_one(spec: str) -> Semantics:
    if spec == "text":
        return TextEncodings()
    name, at, mode = spec.rpartition("@")
    if not at or mode not in MODES:
        name, mode = spec, "lower"
    if name == "glove":
        return WordVectors.builtin(mode)
    path, member = split_member(name)
    if name and path.exists():
        found = path
    elif str(path) in assets.ASSETS:
        found = assets.fetch_asset(str(path))
    else:
        found = assets.find_asset(str(path)) if name else None
    if found is None:
        raise UnseenError(f"There are no vectors {spec!r}: neither a built-in name nor a file. Choose: {OPTIONS}.")
    return WordVectors.load(f"{found}#{member}" if member else found, mode)


def semantics_from_provenance(saved: Mapping[str, Any], source: str | Path | Callable | None = None) -> Semantics:
    """The source that a provenance tells of. It must still be the same one: new classes need the bundle's own space.

    `source` names the file where it lies now, or gives the callable anew (code that a bundle names is never run).
    """
    name, kind, mode = (saved.get(key) for key in ("name", "kind", "mode"))
    if kind == "glove":
        found: Semantics = WordVectors.builtin(mode)
    elif kind == "text":
        found = TextEncodings()
    elif kind == "file" and (source is not None or split_member(str(saved.get("source")))[0].is_file()):
        found = WordVectors.load(source or saved["source"], mode)
    elif kind == "callable" and callable(source):
        found = CallableVectors(source, name, mode)
    else:
        raise UnseenError(
            f"The vectors {name!r} came from {saved.get('source')}, which is not here. Give them again, or train "
            "another bundle with built-in ones (--vectors glove)."
        )
    for key in ("sha256", "dim"):
        if saved.get(key) != found.provenance[key]:
            raise UnseenError(
                f"The vectors {name!r} are not those the bundle was made with: {key} was {saved.get(key)}, now "
                f"{found.provenance[key]} ({found.provenance['source']}). Give the old ones, or train again."
            )
    return found
