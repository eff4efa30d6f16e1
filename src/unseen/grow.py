"""More classes for a finished bundle, fewer, or other names: predicted by the stored model, without training again.

A new class's classifier is what the fitted method predicts for it on the grown hierarchy. The classes that were there
before keep theirs: adding one never moves the answers for the others against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from unseen.bundle import Bundle
from unseen.errors import UnseenError
from unseen.problem import normalise_rows
from unseen.semantics import ClassVectors, semantics_from_provenance
from unseen.taxonomy import Node, Taxonomy
from unseen.text_encoder import encoder_installed, needs_encoder


def add_classes(bundle: Bundle, nodes: Sequence[Node]) -> Bundle:
    """The bundle with new classes, each given by id, names, parents and perhaps a definition.

    A parent may be an id, or a name that means one class only. A new class may be the parent of another new one.
    """
    if not nodes:
        raise UnseenError("no class to add was given")
    method = bundle.make_method()
    new_ids = {node.id for node in nodes}
    resolved = []
    for node in nodes:
        if not node.parents:
            raise UnseenError(f"{node.id}: a new class needs a parent, so that it has something to borrow from")
        parents = tuple(p if p in new_ids else bundle.taxonomy.resolve(p) for p in node.parents)
        resolved.append(replace(node, parents=parents))
    taxonomy = bundle.taxonomy.extend(resolved)
    rows = np.arange(len(bundle), len(taxonomy))
    vectors, guessed = _grown_vectors(bundle, taxonomy, rows)
    problem = bundle.problem(taxonomy, vectors)
    solution = bundle.solution
    predicted = method.predict(problem, solution.state, rows).astype(np.float32)
    grown = replace(
        solution,
        classifiers=np.concatenate([solution.classifiers, predicted]),
        answers=_append(solution.answers, lambda: np.full(len(rows), bundle.method != "network")),
        trust=_append(solution.trust, lambda: method.trust(problem, solution.state, rows)),
        details=solution.details | ({"text_guessed": guessed} if guessed else {}),
    )
    added = bundle.added + [node.id for node in resolved]
    return replace(bundle, taxonomy=taxonomy, vectors=vectors, solution=grown, added=added, path=None)


def remove_classes(bundle: Bundle, ids: Sequence[str]) -> Bundle:
    """The bundle without these classes; their children go to their parents. Seen classes cannot be removed."""
    gone = bundle.taxonomy.indices(ids)
    seen = bundle.is_seen[gone]
    if seen.any():
        named = ", ".join(bundle.ids[row] for row in gone[seen][:5])
        raise UnseenError(f"{named}: seen classes belong to the network and cannot be removed; use candidates instead")
    kept = np.setdiff1d(np.arange(len(bundle)), gone)
    taxonomy = bundle.taxonomy.without(ids)
    solution, vectors = bundle.solution, bundle.vectors
    smaller = replace(
        solution,
        classifiers=solution.classifiers[kept],
        answers=None if solution.answers is None else solution.answers[kept],
        trust=None if solution.trust is None else solution.trust[kept],
    )
    parts = tuple(part[kept] for part in vectors.parts)
    removed = set(ids)
    coverage = replace(vectors.coverage, classes=len(kept), zero=[i for i in vectors.coverage.zero if i not in removed])
    return replace(
        bundle,
        taxonomy=taxonomy,
        seen=taxonomy.indices(bundle.seen_ids),
        vectors=replace(vectors, parts=parts, coverage=coverage),
        solution=smaller,
        added=[i for i in bundle.added if i not in removed],
        path=None,
    )


def rename_class(bundle: Bundle, id: str, names: Sequence[str]) -> Bundle:
    """The bundle with other names for a class. Its classifier stays: for another one, remove it and add it anew."""
    row, old = bundle.taxonomy.index(id), bundle.taxonomy
    lemmas = [tuple(names) if i == row else own for i, own in enumerate(old.lemmas)]
    graph = (old.parent_ptr.astype(np.int64), old.parent_idx.astype(np.int64))
    return replace(bundle, taxonomy=Taxonomy(old.ids, lemmas, graph, old.own_definitions, old.source), path=None)


def _grown_vectors(bundle: Bundle, taxonomy: Taxonomy, rows: np.ndarray) -> tuple[ClassVectors, list[str]]:
    """The stored vectors with rows for the new classes from the same sources; and the ids whose text had to be guessed.

    Without the sentence encoder a new class's text vector is the mean of its parents'.
    """
    parts, guessed, missed = [], [], {}
    for old, source in zip(bundle.vectors.parts, bundle.vectors.provenance, strict=True):
        part = np.concatenate([old, np.zeros((len(rows), old.shape[1]), np.float32)])
        if source["kind"] == "text" and not encoder_installed() and needs_encoder(taxonomy, rows):
            for row in rows:
                above = taxonomy.indices(taxonomy.parents(taxonomy.ids[row]))
                part[row] = part[above].mean(axis=0)
            guessed = [taxonomy.ids[row] for row in rows]
        else:
            semantics = semantics_from_provenance(source)
            part[rows] = semantics.encode(taxonomy, rows)
            if hasattr(semantics, "missed_words"):
                missed |= semantics.missed_words(taxonomy, rows)
        part[rows] = normalise_rows(part[rows])
        parts.append(part)
    old = bundle.vectors.coverage
    empty = [taxonomy.ids[row] for row in rows if not any(part[row].any() for part in parts)]
    coverage = replace(old, classes=len(taxonomy), zero=[*old.zero, *empty], missed_words=missed)
    return replace(bundle.vectors, parts=tuple(parts), coverage=coverage), guessed


def _append(array: np.ndarray | None, more) -> np.ndarray | None:
    return None if array is None else np.concatenate([array, np.asarray(more(), dtype=array.dtype)])
