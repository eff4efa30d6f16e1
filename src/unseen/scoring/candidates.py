"""Which classes a photo may be assigned to: the authors' lists, hops, subtrees, own lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from unseen.assets import fetch_asset
from unseen.errors import UnseenError
from unseen.taxonomy import Taxonomy

AUTHORS_LISTS = ("2-hops", "3-hops", "all")
HELP = "any, unseen, seen, leaves, hops:N, subtree:ID, 2-hops, 3-hops, all (the authors' lists), or a file of ids"


def paper_list(name: str) -> list[str]:
    """A list of the paper's authors: 2-hops, 3-hops, all, train, awa2-test, awa2-train."""
    if name == "awa2-train":
        return json.loads(fetch_asset("awa2-split.json").read_text())["train"]
    return json.loads(fetch_asset("imagenet-testsets.json").read_text())[name]


def resolve_candidates(
    spec: str | Sequence[str],
    taxonomy: Taxonomy,
    seen_ids: Sequence[str],
    class_ids: Sequence[str],
    with_seen: bool = False,
) -> list[str]:
    """The ids that `spec` names, in the hierarchy's order. A trailing "+1K", or `with_seen`, adds the seen classes.

    `class_ids` are what a photo may be called at all (a hierarchy also has nodes that only connect others).
    """
    if isinstance(spec, str) and spec.lower().endswith("+1k"):
        spec, with_seen = spec[:-3], True
    chosen = set(_chosen(spec, taxonomy, seen_ids, class_ids))
    if with_seen:
        chosen |= set(seen_ids)
    ids = [i for i in taxonomy.ids if i in chosen]
    if not ids:
        raise UnseenError(f"the candidates {spec!r} name no class of this hierarchy. Choose from: {HELP}")
    return ids


def _chosen(spec, taxonomy: Taxonomy, seen_ids: Sequence[str], class_ids: Sequence[str]) -> Sequence[str]:
    if not isinstance(spec, str):
        return known_ids(spec, taxonomy, "the candidates")
    seen, kind, argument = set(seen_ids), *spec.partition(":")[::2]
    if spec in (*AUTHORS_LISTS, "awa2-test", "awa2-train"):
        return paper_list(spec)
    if spec == "awa2":
        return [*paper_list("awa2-test"), *paper_list("awa2-train")]
    if spec == "any":
        return class_ids
    if spec == "seen":
        return seen_ids
    if spec == "unseen":
        return [i for i in class_ids if i not in seen]
    if spec == "leaves":
        leaves = set(taxonomy.leaves)
        return [i for i in class_ids if i in leaves]
    if kind == "hops":
        if not argument.isdecimal() or int(argument) < 1:
            raise UnseenError(f"hops:N takes an integer of at least 1, not {argument!r}")
        within = set(taxonomy.within_hops(seen_ids, int(argument)))
        return [i for i in class_ids if i in within and i not in seen]
    if kind == "subtree":
        root = taxonomy.resolve(argument)
        below = {root, *taxonomy.descendants(root)}
        return [i for i in class_ids if i in below]
    if Path(spec).is_file():
        return known_ids(read_ids(Path(spec)), taxonomy, spec)
    raise UnseenError(f"no candidates named {spec!r}, and no such file. Choose from: {HELP}")


def read_ids(path: Path) -> list[str]:
    """A file of ids, one a line (what follows a blank or a comma is ignored), or a JSON list."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnseenError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    if path.suffix == ".json":
        try:
            ids = json.loads(text)
        except ValueError as error:
            raise UnseenError(f"{path}: not JSON: {error}") from None
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise UnseenError(f"{path}: must hold a JSON list of ids")
    else:
        ids = [line.replace(",", " ").split()[0] for line in text.splitlines() if line.strip(" \t,")]
    if not ids:
        raise UnseenError(f"{path}: holds no ids")
    return ids


def known_ids(ids: Sequence[str], taxonomy: Taxonomy, where: str) -> list[str]:
    unknown = [i for i in ids if i not in taxonomy]
    if unknown:
        some = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise UnseenError(f"{where}: {len(unknown)} ids are not in the hierarchy: {some}")
    return list(ids)
