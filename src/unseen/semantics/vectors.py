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
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from unseen import assets
from unseen.errors import UnseenError
from unseen.semantics.sources import CallableVectors, Semantics, WordVectors, checked
from unseen.semantics.text_encoder import ENCODERS, TextEncodings
from unseen.semantics.vector_cache import split_member
from unseen.semantics.word_lookup import MODES

if TYPE_CHECKING:
    from unseen.taxonomy import Taxonomy

OPTIONS = (
    "glove (built-in GloVe 6B, 100-d), text (built-in sentence encodings), mpnet (by a larger encoder), a file of "
    "word vectors (GloVe, word2vec or fastText; an archive's file as archive.zip#file), or several joined by '+', "
    "such as glove+text; '@authors' behind a name or file keeps capitals, as the paper's authors do"
)

BLOCK = 1 << 16  # classes at a time


@dataclass(frozen=True)
class Coverage:
    """How far the vectors reach. `zero`: ids without any vector, `zero_names` their names; `missed_words`: a word -> in
    how many classes it was not found; `zero_by_part`: a source -> how many classes it knows nothing of."""

    classes: int
    zero: list[str]
    missed_words: Mapping[str, int] = field(default_factory=Counter)
    zero_names: Sequence[str] = ()
    zero_by_part: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        taxonomy: Taxonomy,
        parts: Sequence[np.ndarray],
        names: Sequence[str],
        missed_words: Mapping[str, int] | None = None,
    ) -> Coverage:
        """Told from the vectors themselves, but for the words that were missed."""
        empty = [~part.any(axis=1) for part in parts]
        rows = np.flatnonzero(np.all(empty, axis=0)) if parts else np.arange(len(taxonomy))
        return cls(
            classes=len(taxonomy),
            zero=[taxonomy.ids[row] for row in rows],
            missed_words=missed_words or {},
            zero_names=[taxonomy.lemmas[row][0] for row in rows],
            zero_by_part={name: int(none.sum()) for name, none in zip(names, empty, strict=True)},
        )

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
    r"""The vectors of a taxonomy's N classes, from K sources; :math:`S = S_1 + \dots + S_K`.

    .. math:: X = [X_1, \dots, X_K] / \sqrt{K} \quad (N \times S)

    Args:
        parts: For each source :math:`X_i`, N x S_i float32, whose rows have length 1, or 0 where nothing is known.
        names: The names of the sources.
        provenance: Where each source came from, as plain JSON values.
        coverage: Which classes have no vector, and which words were missed.

    >>> import numpy as np
    >>> from unseen import ClassVectors
    >>> two_classes = np.eye(2, dtype=np.float32), np.eye(2, 3, dtype=np.float32)
    >>> vectors = ClassVectors(two_classes, ("colour", "shape"), [{}, {}])
    >>> vectors.matrix.shape
    (2, 5)
    >>> np.linalg.norm(vectors.matrix, axis=1).round(4).tolist()
    [1.0, 1.0]
    """

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
    r"""The vectors of all N classes of a taxonomy, from one source or several.

    A source encodes class u as :math:`v_u` (S numbers), of which the direction is kept:

    .. math:: x_u = v_u / \lVert v_u \rVert, \quad x_u = 0 \text{ if } v_u = 0

    Args:
        taxonomy: The hierarchy.
        semantics: A source, or several, from `unseen.load_vectors`.

    >>> import unseen
    >>> animals = unseen.Taxonomy.from_edges([("dog", "mammal"), ("zonkey", "mammal"), ("wolphin", "mammal")])
    >>> vectors = unseen.class_vectors(animals, unseen.load_vectors("glove"))
    >>> vectors.matrix.shape
    (4, 100)
    >>> print(vectors.coverage.describe())
    2 of 4 classes have no vector (zonkey, wolphin); 2 words were not found, most frequent: zonkey (1), wolphin (1).
    """
    sources = list(semantics) if isinstance(semantics, Sequence) else [semantics]
    if not sources:
        raise UnseenError(f"No vectors were named. Choose: {OPTIONS}.")
    parts, missed = [], Counter()
    for source in sources:
        raw = checked(np.asarray(source.encode(taxonomy), np.float32), (len(taxonomy.ids), source.dim), source.name)
        parts.append(np.empty_like(raw))
        for rows in _blocks(len(raw)):  # double precision of all rows at once would need four times the memory
            length = np.linalg.norm(raw[rows].astype(np.float64), axis=1, keepdims=True)
            parts[-1][rows] = raw[rows] / np.where(length > 0, length, 1)
        missed_words = getattr(source, "missed_words", None)
        if missed_words is not None:
            missed.update(missed_words(taxonomy))
    names = tuple(source.name for source in sources)
    coverage = Coverage.of(taxonomy, parts, names, missed)
    return ClassVectors(tuple(parts), names, [dict(source.provenance) for source in sources], coverage)


def find_coverage(taxonomy: Taxonomy, sources: Sequence[Semantics]) -> Coverage:
    """What `class_vectors` tells of its coverage, without all vectors in memory at once."""
    known, missed = [], Counter()
    for source in sources:
        if isinstance(source, WordVectors):
            found, words = source.reach(taxonomy)
            known.append(found[:, None])
            missed.update(words)
            continue
        known.append(np.zeros((len(taxonomy), 1), bool))
        for rows in _blocks(len(taxonomy)):
            chosen = np.arange(len(taxonomy))[rows]
            block = np.asarray(source.encode(taxonomy, chosen), np.float32)
            known[-1][rows, 0] = checked(block, (len(chosen), source.dim), source.name).any(axis=1)
        missed_words = getattr(source, "missed_words", None)
        if missed_words is not None:
            missed.update(missed_words(taxonomy))
    return Coverage.of(taxonomy, known, [source.name for source in sources], missed)


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, rows, BLOCK)]


def _is_source(thing: Any) -> TypeGuard[Semantics]:
    if isinstance(thing, (WordVectors, TextEncodings, CallableVectors)):
        return True
    return all(hasattr(thing, part) for part in ("name", "dim", "provenance", "encode"))


def load_vectors(spec: str | Path | Semantics | Callable | Sequence) -> list[Semantics]:
    """The sources of class vectors that a user names.

    Args:
        spec: "glove", "text", "mpnet", a file of word vectors, or several joined by "+"; a callable (n names -> n x S
            matrix); a source; or a list of these.

    >>> import numpy as np
    >>> import unseen
    >>> def spelling(names):
    ...     return np.array([[len(name), name.count("o")] for name in names])
    >>> [(source.name, source.dim) for source in unseen.load_vectors(["glove", spelling])]
    [('glove', 100), ('spelling', 2)]
    """
    if _is_source(spec):
        return [spec]
    if callable(spec):
        return [CallableVectors(spec)]
    if isinstance(spec, (str, Path)):
        text = str(spec)
        names = [text] if Path(text).expanduser().exists() else text.split("+")
        return [_load_one(name.strip()) for name in names]
    if not isinstance(spec, Iterable):
        raise UnseenError(f"Class vectors cannot come from {type(spec).__name__}. Choose: {OPTIONS}.")
    return [source for part in spec for source in load_vectors(part)]


def _load_one(spec: str) -> Semantics:
    if spec in ENCODERS:
        return TextEncodings(spec)
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


def _is_there(file: Any) -> bool:
    return split_member(str(file))[0].is_file()


def semantics_from_provenance(saved: Mapping[str, Any], source: str | Path | Callable | None = None) -> Semantics:
    """The source that a provenance tells of. It must still be the same one: new classes need the bundle's own space.

    `source` names the file where it lies now, or gives the callable anew (code that a bundle names is never run).
    """
    name, kind, mode = (saved.get(key, "") for key in ("name", "kind", "mode"))
    if kind == "glove":
        found: Semantics = WordVectors.builtin(mode)
    elif kind == "text":
        found = TextEncodings(name)
    elif kind == "callable" and callable(source):
        found = CallableVectors(source, name, mode)
    elif kind == "file" and not callable(source) and (source is not None or _is_there(saved.get("source"))):
        found = WordVectors.load(source or saved["source"], mode)
    else:
        raise UnseenError(
            f"The vectors {name!r} came from {saved.get('source')}, which is not here. Give them again, or train "
            "another bundle with built-in ones, such as vectors='glove'.",
            "vectors='glove'",
        )
    for key in ("sha256", "dim"):
        if saved.get(key) != found.provenance[key]:
            raise UnseenError(
                f"The vectors {name!r} are not those the bundle was made with: {key} was {saved.get(key)}, now "
                f"{found.provenance[key]} ({found.provenance['source']}). Give the old ones, or train again."
            )
    return found
