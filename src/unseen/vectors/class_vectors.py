"""The vectors of a hierarchy's classes: built-in GloVe and text encodings, files of word vectors, any callable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from unseen import data as assets
from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError
from unseen.util.names import list_some
from unseen.vectors.files import split_member
from unseen.vectors.looks import LookEncodings
from unseen.vectors.sources import MODES, CallableVectors, VectorSource, WordVectors, checked
from unseen.vectors.text_encoder import TextEncodings

OPTIONS = (
    "glove (built-in GloVe 6B, 100-d), text (built-in sentence encodings), looks (what things look like, in "
    "words), a file of word vectors (text, such as GloVe's; an archive's file as "
    "archive.zip#file), or several joined by '+', such as glove+text+looks; '@authors' "
    "behind a name or file keeps capitals, as the paper's authors do"
)

SENTENCES = {"text": TextEncodings, "looks": LookEncodings}


@dataclass(frozen=True)
class Coverage:
    """Which classes have vectors."""

    classes: int
    zero: list[str]  # ids of classes without any vector
    missed_words: Mapping[str, int] = field(default_factory=Counter)  # word -> number of classes whose names have it
    zero_names: Sequence[str] = ()  # the names of `zero`
    zero_by_part: Mapping[str, int] = field(default_factory=dict)  # source -> number of classes unknown to it

    @classmethod
    def of(
        cls,
        hierarchy: Hierarchy,
        parts: Sequence[np.ndarray],
        names: Sequence[str],
        missed_words: Mapping[str, int] | None = None,
    ) -> Coverage:
        """The coverage of one N x S_i matrix for each source in `names`; a row of zeros means an unknown class."""
        empty = [~part.any(axis=1) for part in parts]
        rows = np.flatnonzero(np.all(empty, axis=0)) if parts else np.arange(len(hierarchy))
        zero, zero_names = [hierarchy.ids[row] for row in rows], [hierarchy.lemmas[row][0] for row in rows]
        by_part = {name: int(none.sum()) for name, none in zip(names, empty, strict=True)}
        return cls(len(hierarchy), zero, missed_words or {}, zero_names, by_part)

    def describe(self, words: int = 8) -> str:
        """A few sentences for the user: classes without a vector, and the words to blame."""
        if self.zero:
            some = list_some(self.zero_names or self.zero)
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
    r"""The vectors of a hierarchy's N classes, from K sources; :math:`S = S_1 + \dots + S_K`.

    .. math:: X = [X_1, \dots, X_K] / \sqrt{K} \quad (N \times S)

    Args:
        parts: For each source :math:`X_i`, N x S_i float32, whose rows have length 1, or 0 where nothing is known.
        names: The names of the sources.
        provenance: Where each source came from, as plain JSON values.
        coverage: Which classes have no vector, and which words were missed.

    >>> two_classes = np.eye(2, dtype=np.float32), np.eye(2, 3, dtype=np.float32)
    >>> ClassVectors(two_classes, ("colour", "shape"), [{}, {}]).matrix.shape
    (2, 5)
    """

    parts: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    provenance: Sequence[dict[str, Any]]
    coverage: Coverage = field(default_factory=lambda: Coverage(0, []))

    @property
    def matrix(self) -> np.ndarray:
        """N x S: the part itself; of several the concatenation / sqrt(their number), so that rows keep length 1."""
        if len(self.parts) == 1:
            return self.parts[0]
        return np.concatenate(self.parts, axis=1) / np.float32(np.sqrt(len(self.parts)))


def class_vectors(hierarchy: Hierarchy, vector_source: VectorSource | Sequence[VectorSource]) -> ClassVectors:
    r"""The vectors of all N classes of a hierarchy, from one source or several.

    A source encodes class u as :math:`v_u` (S numbers), of which the direction is kept:

    .. math:: x_u = v_u / \lVert v_u \rVert, \quad x_u = 0 \text{ if } v_u = 0

    >>> import unseen
    >>> animals = unseen.Hierarchy.from_edges([("dog", "mammal"), ("zonkey", "mammal"), ("wolphin", "mammal")])
    >>> vectors = class_vectors(animals, unseen.load_vectors("glove"))
    >>> vectors.matrix.shape
    (4, 100)
    >>> print(vectors.coverage.describe())
    2 of 4 classes have no vector (zonkey, wolphin); 2 words were not found, most frequent: zonkey (1), wolphin (1).
    """
    sources = list(vector_source) if isinstance(vector_source, Sequence) else [vector_source]
    if not sources:
        raise UnseenError(f"No vectors were named. Choose: {OPTIONS}.")
    parts, missed = [], Counter()
    for source in sources:
        raw = checked(np.asarray(source.encode(hierarchy), np.float32), (len(hierarchy.ids), source.dim), source.name)
        length = np.sqrt(np.einsum("us,us->u", raw, raw, dtype=np.float64))[:, None]
        length[length == 0] = 1
        parts.append(np.divide(raw, length, out=np.empty_like(raw), casting="same_kind"))
        if isinstance(source, WordVectors):
            missed.update(source.missed_words(hierarchy))
    names = tuple(source.name for source in sources)
    coverage = Coverage.of(hierarchy, parts, names, missed)
    return ClassVectors(tuple(parts), names, [dict(source.provenance) for source in sources], coverage)


def _is_source(thing: Any) -> TypeGuard[VectorSource]:
    return all(hasattr(thing, part) for part in ("name", "dim", "provenance", "encode"))


def load_vectors(spec: str | Path | VectorSource | Callable[[list[str]], Any] | Sequence[Any]) -> list[VectorSource]:
    """The sources of class vectors that a user names.

    `spec`: "glove", "text", "looks", a file of word vectors, or several joined by "+"; a callable (n names ->
    n x S matrix); a source; or a list of these.

    >>> def spelling(names):
    ...     return np.array([[len(name), name.count("o")] for name in names])
    >>> [(source.name, source.dim) for source in load_vectors(["glove", spelling])]
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


def _load_one(spec: str) -> VectorSource:
    if spec in SENTENCES:
        return SENTENCES[spec]()
    name, at, mode = spec.rpartition("@")
    if not at or mode not in MODES:
        name, mode = spec, "lower"
    if name == "glove":
        return WordVectors.builtin(mode)
    path, member = split_member(name)
    file: Path | None = path if name and path.exists() else None
    if file is None and name:
        file = assets.fetch_asset(str(path)) if str(path) in assets.ASSETS else assets.find_asset(str(path))
    if file is None:
        raise UnseenError(f"There are no vectors {spec!r}: neither a built-in name nor a file. Choose: {OPTIONS}.")
    return WordVectors.load(f"{file}#{member}" if member else file, mode)


def vectors_from_provenance(
    saved: Mapping[str, Any], source: str | Path | Callable[[list[str]], Any] | None = None
) -> VectorSource:
    """The source that a provenance describes, unchanged: new classes need vectors in the same space. `source` is the
    file where it lies now, or the callable (code that a bundle names is never run)."""
    name, kind, mode, origin = (saved.get(key, "") for key in ("name", "kind", "mode", "source"))
    if kind == "glove":
        vectors: VectorSource = WordVectors.builtin(mode)
    elif kind in SENTENCES:
        vectors = SENTENCES[kind]()
    elif kind == "callable" and callable(source):
        vectors = CallableVectors(source, name)
    elif kind == "file" and not callable(source) and (source is not None or split_member(str(origin))[0].is_file()):
        vectors = WordVectors.load(source or origin, mode)
    else:
        advice = "Give them again, or train another model with built-in ones, such as glove."
        raise UnseenError(f"The vectors {name!r} came from {origin}, which is not here. {advice}")
    for key in ("sha256", "dim"):
        if saved.get(key) != vectors.provenance[key]:
            raise UnseenError(
                f"The vectors {name!r} are not those the model was made with: {key} was {saved.get(key)}, now "
                f"{vectors.provenance[key]} ({vectors.provenance['source']}). Give the old ones, or train again."
            )
    return vectors
