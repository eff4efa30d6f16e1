"""Which classes a photo may be assigned to: the authors' lists, hops, subtrees, own classes, own lists."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from unseen.assets import fetch_asset
from unseen.errors import UnseenError
from unseen.scoring.awa2_classes import TEST, TRAIN
from unseen.taxonomy import Taxonomy
from unseen.taxonomy.readers import COLUMNS, read_csv, read_json
from unseen.taxonomy.search import close_matches, did_you_mean, near_ids
from unseen.taxonomy.sources import BUILT_IN
from unseen.taxonomy.wordnet import is_wordnet_id

AUTHORS_LISTS = ("2-hops", "3-hops", "all")
AWA2 = {"awa2-test": TEST, "awa2-train": TRAIN}
WORDS = ("any", "unseen", "seen", "own", "leaves", *AUTHORS_LISTS, "awa2", "awa2-test", "awa2-train")
HELP = (
    "any, unseen, seen, own (what you added), leaves, hops:N, subtree:ID, 2-hops, 3-hops, all (the authors' lists), "
    "a file of ids, or the CSV that you added; several joined by +, as own+seen"
)


def paper_list(name: str) -> list[str]:
    """A list of the paper's authors: 2-hops, 3-hops, all, train, awa2-test, awa2-train."""
    if name in AWA2:
        return list(AWA2[name].values())
    return json.loads(fetch_asset("imagenet-testsets.json").read_text())[name]


def resolve_candidates(
    spec: str | Sequence[str],
    taxonomy: Taxonomy,
    seen_ids: Sequence[str],
    class_ids: Sequence[str],
    with_seen: bool = False,
    added: Sequence[str] = (),
) -> list[str]:
    """The ids that `spec` names, in the hierarchy's order. A trailing "+1K", or `with_seen`, adds the seen classes.

    `class_ids` are what a photo may be called at all (a hierarchy also has nodes that only connect others); `added`
    those that came to the bundle after its training.
    """
    chosen = set(seen_ids) if with_seen else set()
    for part in split_candidates(spec) if isinstance(spec, str) else [spec]:
        chosen |= set(_chosen(part, taxonomy, seen_ids, class_ids, added))
    ids = [i for i in taxonomy.ids if i in chosen]
    if not ids:
        raise UnseenError(f"the candidates {spec!r} name no class of this hierarchy. Choose from: {HELP}")
    return ids


def split_candidates(spec: str) -> list[str]:
    """What `+` joins: own+seen. A file may have a + in its name."""
    return [spec] if Path(spec).is_file() else [part.strip() for part in spec.split("+")]


def own_ids(taxonomy: Taxonomy, added: Sequence[str]) -> list[str]:
    """What the user added to a hierarchy: with `unseen add`, or as the FILE of `--graph imagenet+FILE`."""
    source = taxonomy.source
    if source.get("kind") not in BUILT_IN:
        return list(added)
    # In a built-in hierarchy all but WordNet's nodes are the user's; of WordNet's, those that the file names.
    named = {*added, *source.get("named", ())}
    return [i for i in taxonomy.ids if i in named or not is_wordnet_id(i)]


def _chosen(
    spec, taxonomy: Taxonomy, seen_ids: Sequence[str], class_ids: Sequence[str], added: Sequence[str]
) -> Sequence[str]:
    if not isinstance(spec, str):
        return known_ids(spec, taxonomy, "the candidates")
    seen, kind, argument = set(seen_ids), *spec.partition(":")[::2]
    if spec in (*AUTHORS_LISTS, "awa2-test", "awa2-train"):
        return paper_list(spec)
    if spec == "awa2":
        return [*paper_list("awa2-test"), *paper_list("awa2-train")]
    if spec == "any":
        return class_ids
    if spec == "seen" or spec.lower() == "1k":
        return seen_ids
    if spec == "unseen":
        return [i for i in class_ids if i not in seen]
    if spec == "own":
        return _own(taxonomy, class_ids, added)
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
    near = did_you_mean(close_matches(spec, WORDS))
    raise UnseenError(f"no candidates named {spec!r}, and no such file.{near} Choose from: {HELP}")


def _own(taxonomy: Taxonomy, class_ids: Sequence[str], added: Sequence[str]) -> list[str]:
    classes = set(class_ids)
    found = [i for i in own_ids(taxonomy, added) if i in classes]
    if not found:
        raise UnseenError(
            "the candidates 'own' are what was added with `unseen add` or in a graph such as imagenet+FILE: nothing "
            "was added to this bundle. All its classes are `any`."
        )
    return found


def read_ids(path: Path) -> list[str]:
    """A file of ids, one a line (what follows a blank or a comma is ignored), or a JSON list; or a hierarchy, CSV with
    a header or JSON, whose ids count."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnseenError(f"{path}: cannot be read as UTF-8 text: {error}") from None
    if path.suffix == ".json":
        try:
            ids = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UnseenError(f"{path}: not JSON: {error}") from None
        if isinstance(ids, list) and ids and all(isinstance(i, dict) for i in ids):
            return read_json(path).ids
        if not isinstance(ids, list) or not all(isinstance(i, str) for i in ids):
            raise UnseenError(f"{path}: must hold a JSON list of ids")
    elif _has_header(text):
        return read_csv(path).ids
    else:
        ids = [line.replace(",", " ").split()[0] for line in text.splitlines() if line.strip(" \t,")]
    if not ids:
        raise UnseenError(f"{path}: holds no ids")
    return ids


def _has_header(text: str) -> bool:
    """Whether the first line names the columns of a hierarchy, as the CSV of `unseen add` does."""
    first = next((line for line in text.splitlines() if line.strip()), "").lower()
    cells = {cell.strip(' "') for cell in first.replace(";", ",").replace("\t", ",").split(",")}
    return {"name", "parent"} <= {COLUMNS.get(cell) for cell in cells}


def known_ids(ids: Sequence[str], taxonomy: Taxonomy, where: str) -> list[str]:
    unknown = [i for i in ids if i not in taxonomy]
    if unknown:
        some = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        near = did_you_mean(near_ids(unknown, taxonomy))
        raise UnseenError(f"{where}: {len(unknown)} ids are not in the hierarchy: {some}.{near}")
    return list(ids)
