"""Add, remove and rename classes of a finished bundle without training.

The fitted method predicts the classifiers of new classes on the grown hierarchy. Old classes keep theirs, so adding a
class never changes how the others rank against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unseen.bundle.bundle import Bundle
from unseen.hierarchy.core import Hierarchy, Node, as_texts
from unseen.hierarchy.search import plain
from unseen.hierarchy.wordnet import check_connected, completed, connecting_nodes
from unseen.methods.base import normalise_rows
from unseen.util.errors import UnseenError
from unseen.vectors.class_vectors import ClassVectors, Coverage, vectors_from_provenance
from unseen.vectors.text_encoder import encoder_installed, unchanged_rows


def add(
    bundle: Bundle, nodes: Sequence[Node], vectors: str | Path | Callable | None = None, trust_code: bool = False
) -> Bundle:
    """The bundle with new classes.

    Parents are ids, of the bundle, of other new classes, or of WordNet, whose nodes then come along with all above
    them. A WordNet id needs neither names nor parents. A node that so far only connected others becomes a class and
    keeps its classifier.

    `vectors`: the bundle's file of word vectors, if it has moved, or its callable.
    """
    if not nodes:
        raise UnseenError("no class to add was given")
    if vectors is not None and not any(_comes_from_outside(source) for source in bundle.vectors.provenance):
        named = ", ".join(bundle.vectors.names)
        raise UnseenError(f"the bundle's vectors ({named}) are built in: omit vectors")
    method = bundle.make_method(trust_code)
    _check_only_connecting(bundle, [node for node in nodes if node.id in bundle.hierarchy])
    new = [completed(node) for node in nodes if node.id not in bundle.hierarchy]
    _check_complete(new)
    connecting = connecting_nodes(bundle.hierarchy, new)
    hierarchy = bundle.hierarchy.extend([*connecting, *new]) if new else bundle.hierarchy
    check_connected(bundle.hierarchy, hierarchy, [node.id for node in new])
    rows = np.arange(len(bundle), len(hierarchy))
    encoded, guessed = _grown_vectors(bundle, hierarchy, rows, vectors)
    added = [node.id for node in nodes]
    kept = [i for i in bundle.connecting if i not in set(added)]
    return bundle.change(
        hierarchy=hierarchy,
        vectors=encoded,
        solution=_grown_solution(bundle, method, hierarchy, encoded, rows),
        added=bundle.added + added,
        connecting=kept + [node.id for node in connecting],
        guessed=bundle.guessed + guessed,
    )


def already_classes(bundle: Bundle, nodes: Sequence[Node]) -> list[str]:
    """The ids among `nodes` that the bundle has as classes already."""
    is_class = bundle.is_class
    return [node.id for node in nodes if node.id in bundle.hierarchy and is_class[bundle.hierarchy.index(node.id)]]


def remove(bundle: Bundle, ids: Sequence[str]) -> Bundle:
    """The bundle without these classes; their children go to their parents. Seen classes cannot be removed."""
    gone = np.unique(bundle.hierarchy.indices(ids))
    seen = bundle.is_seen[gone]
    if seen.any():
        named = ", ".join(bundle.ids[row] for row in gone[seen][:5])
        raise UnseenError(f"{named}: seen classes belong to the network and cannot be removed; use candidates instead")
    kept = np.setdiff1d(np.arange(len(bundle)), gone)
    hierarchy = bundle.hierarchy.without(ids)
    solution, vectors, removed = bundle.solution, bundle.vectors, set(ids)
    parts = tuple(part[kept] for part in vectors.parts)
    return bundle.change(
        hierarchy=hierarchy,
        seen=hierarchy.indices(bundle.seen_ids),
        vectors=replace(vectors, parts=parts, coverage=Coverage.of(hierarchy, parts, vectors.names)),
        solution=replace(
            solution,
            classifiers=solution.classifiers[kept],
            answers=None if solution.answers is None else solution.answers[kept],
            trust=None if solution.trust is None else solution.trust[kept],
        ),
        added=[i for i in bundle.added if i not in removed],
        connecting=[i for i in bundle.connecting if i not in removed],
        guessed=[i for i in bundle.guessed if i not in removed],
        taught={i: entry for i, entry in bundle.taught.items() if i not in removed},
    )


def rename(bundle: Bundle, id: str, names: Sequence[str]) -> Bundle:
    """The bundle with other names for a class, the one to show first.

    Its classifier stays; to get another one, remove the class and add it again.
    """
    row, old = bundle.hierarchy.index(id), bundle.hierarchy
    lemmas = [tuple(names) if at == row else kept for at, kept in enumerate(old.lemmas)]
    graph = (old.parent_ptr.astype(np.int64), old.parent_idx.astype(np.int64))
    return bundle.change(hierarchy=Hierarchy(old.ids, lemmas, graph, old.own_definitions, old.source, old.own_looks))


def _check_only_connecting(bundle: Bundle, nodes: Sequence[Node]) -> None:
    """Refuse nodes that are classes already, and changes to those that only connect others."""
    hierarchy, known = bundle.hierarchy, already_classes(bundle, nodes)
    if known:
        named = ", ".join(f"{i} ({hierarchy.name(i)})" for i in known[:5])
        raise UnseenError(f"already a class of this bundle: {named}. A new class needs an id of its own.")
    for node in nodes:
        names, above = hierarchy.lemmas[hierarchy.index(node.id)], hierarchy.parents(node.id)
        if (
            not set(map(plain, as_texts(node.lemmas))) <= set(map(plain, names))
            or not set(as_texts(node.parents)) <= set(above)
            or node.definition not in ("", hierarchy.definition(node.id))
            or node.looks not in ("", hierarchy.look(node.id))
        ):
            raise UnseenError(
                f"{node.id} is in the hierarchy already, as {', '.join(names)} under {', '.join(above) or 'nothing'}, "
                "where it connects others. To make it a class give its id alone; something else needs an id of its own."
            )


def _comes_from_outside(source: dict) -> bool:
    """Whether a source of vectors is the user's: a file that may move, or a callable."""
    return source.get("kind") in ("file", "callable")


def _check_complete(nodes: Sequence[Node]) -> None:
    for node in nodes:
        if not node.lemmas:
            raise UnseenError(f"{node.id}: a new class needs a name")
        if not node.parents:
            raise UnseenError(f"{node.id}: a new class needs a parent, so that it has something to borrow from")


def _grown_solution(bundle: Bundle, method, hierarchy: Hierarchy, vectors: ClassVectors, rows: np.ndarray):
    """The stored solution with predictions for the new rows."""
    solution = bundle.solution
    if not len(rows):
        return solution
    problem = bundle.problem(hierarchy, vectors)
    with bundle.reading_state():
        predicted = method.predict(problem, solution.state, rows).astype(np.float32)
        answers = _append(solution.answers, lambda: method.answers(problem, rows))
        trust = _append(solution.trust, lambda: method.trust(problem, solution.state, rows))
    if not np.isfinite(predicted).all():
        raise UnseenError(f"{bundle.method} predicts NaN or infinity for the new classes: train the bundle again")
    return replace(
        solution,
        classifiers=np.concatenate([solution.classifiers, predicted], dtype=np.float32),
        answers=answers,
        trust=trust,
    )


def _grown_vectors(
    bundle: Bundle, hierarchy: Hierarchy, rows: np.ndarray, given: str | Path | Callable | None
) -> tuple[ClassVectors, list[str]]:
    """The stored vectors with rows for the new classes, and the ids whose text vector is a guess.

    Without the sentence encoder, a class that is not WordNet's gets the mean of its parents' text vectors.
    """
    if not len(rows):
        return bundle.vectors, []
    parts, guessed, missed = [], [], Counter(bundle.vectors.coverage.missed_words)
    for old, source in zip(bundle.vectors.parts, bundle.vectors.provenance, strict=True):
        part = np.concatenate([old, np.zeros((len(rows), old.shape[1]), np.float32)])
        unreadable = np.zeros(0, np.int64)
        if source.get("kind") == "text" and not encoder_installed():
            unreadable = rows[unchanged_rows(hierarchy, rows) < 0]
        readable = np.setdiff1d(rows, unreadable)
        if len(readable):
            vector_source = vectors_from_provenance(source, given if _comes_from_outside(source) else None)
            part[readable] = normalise_rows(vector_source.encode(hierarchy, readable))
            count_missed = getattr(vector_source, "missed_words", None)  # only words can be missed
            if count_missed is not None:
                missed.update(count_missed(hierarchy, readable))
        # Parents first: they have fewer classes above them.
        for row in sorted(unreadable.tolist(), key=lambda row: len(hierarchy.ancestors(hierarchy.ids[row]))):
            above = hierarchy.indices(hierarchy.parents(hierarchy.ids[row]))
            part[row] = normalise_rows(part[above].mean(axis=0, keepdims=True))[0]
        guessed += [hierarchy.ids[row] for row in unreadable]
        parts.append(part)
    coverage = Coverage.of(hierarchy, parts, bundle.vectors.names, missed)
    return replace(bundle.vectors, parts=tuple(parts), coverage=coverage), guessed


def _append(array: np.ndarray | None, more) -> np.ndarray | None:
    return None if array is None else np.concatenate([array, np.asarray(more(), dtype=array.dtype)])
