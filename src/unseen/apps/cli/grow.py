"""`unseen add` and `teach`: more for a finished bundle to know, without training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command
from unseen.apps.cli.output import emit, stderr, stdout
from unseen.bundle import Bundle, grow
from unseen.bundle import teach as teaching
from unseen.bundle.teaching_photos import PhotosByClass, read_by_class, read_one_class
from unseen.hierarchy.core import Node
from unseen.hierarchy.files import read_additions
from unseen.model import load
from unseen.naming.meaning import find_class, with_parent_ids
from unseen.training.default import default_bundle
from unseen.util.devices import uncollected
from unseen.util.errors import UnseenError
from unseen.util.names import how_to_install, list_some, slug


@command(
    "add",
    examples="""
    unseen add my-bundle --name "rescue drone" --parent n03245889 --definition "a drone that finds people" --out grown
    unseen add my-bundle --name "wheelie bin" --parent ashcan --looks "tall green plastic bin on two wheels" --out grown
    unseen add my-bundle --name labradoodle --parent poodle --photos labradoodles/ --out grown
    unseen add my-bundle --id n02456645 --out grown
    unseen add my-bundle --csv new-classes.csv --out grown
    """,
)
def add(
    out: options.Out,
    bundle: Annotated[Path | None, Argument(help="The bundle; the default one if none is named.")] = None,
    name: Annotated[list[str] | None, Option(help="The name of the class; repeat for synonyms.")] = None,
    parent: Annotated[list[str] | None, Option(help="Id or name of a parent; may be repeated.")] = None,
    id: Annotated[str | None, Option(help="Its id; a WordNet id brings name and parents.")] = None,
    definition: Annotated[str, Option(help="What it is, in a sentence.")] = "",
    looks: Annotated[str, Option(help="What it looks like in photos: shape, colours, parts, setting.")] = "",
    csv: Annotated[Path | None, Option(help="Many classes: a CSV with id,name,parent[,definition,looks].")] = None,
    photos: Annotated[
        str | None, Option(help=f"To teach it with: a photo, a folder, or a list. With --csv: {options.BY_CLASS_HELP}.")
    ] = None,
    vectors: Annotated[Path | None, Option(help="The bundle's file of word vectors, if it has moved.")] = None,
    overwrite: options.Overwrite = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Add classes to a bundle by name and parent: their classifiers are predicted at once."""
    if (csv is None) != bool(name or id):
        raise UnseenError("name a class with --name and --parent, or give many with --csv FILE; one of the two")
    if csv is not None and (parent or definition or looks):
        raise UnseenError("--parent, --definition and --looks go with --name; in a CSV they are columns")

    with uncollected():
        # The default bundle belongs to nobody: without a path it is not replaced.
        old = replace(default_bundle(), path=None) if bundle is None else Bundle.load(bundle, trust_code=trust_code)
    if csv is None:
        names = tuple(name or ())
        node = Node(id or slug(names[0]), names, tuple(parent or ()), definition, " ".join(looks.split()))
        nodes, known = with_parent_ids([node], old.hierarchy), []
    else:
        nodes = read_additions(csv, old.hierarchy)
        known = grow.already_classes(old, nodes)
        nodes = [node for node in nodes if node.id not in set(known)]
        if not nodes:
            raise UnseenError(f"{csv}: all {len(known):,} classes are in the bundle already: nothing to add")
        if known:
            stderr.print(f"{len(known):,} classes of {csv} are in the bundle already: {list_some(known)}")
    old.check_output(out, overwrite)
    grown = grow.add(old, nodes, vectors, trust_code)
    if photos is not None:
        grown = _taught(grown, nodes, photos, csv is not None)
    grown.save(out, overwrite=overwrite)
    _mention(grown, nodes)
    added = [_describe(grown, node.id) for node in nodes]
    result = {"bundle": str(out), "added": added, "already_there": known, "nodes": len(grown)}
    emit(result, json_, lambda: _show(added, out))


def _taught(bundle: Bundle, nodes: Sequence[Node], photos: str, by_class: bool) -> Bundle:
    """The bundle with its new classes taught: one by all photos of a folder, several by a folder each."""
    model = load(bundle)
    if not by_class:
        return teaching.teach(bundle, {nodes[0].id: read_one_class(model.network, photos)})
    given = read_by_class(model.bundle, lambda: model.network, photos)
    strangers = sorted(set(given.photos) - {node.id for node in nodes})
    if strangers:
        raise UnseenError(f"{photos}: {', '.join(strangers[:5])} are not among the new classes: use `unseen teach`")
    mention_unused(given, sum(len(photos.checksums) for photos in given.photos.values()))
    return teaching.teach(bundle, given.photos)


def _mention(grown: Bundle, nodes: Sequence[Node]) -> None:
    """What a user may not have meant, or should know."""
    if any(node.id in grown.guessed for node in nodes):
        how = how_to_install("text")
        stderr.print(
            f"The sentence encoder is not installed: the text of new classes is guessed from their parents' ({how})."
        )
    _mention_looks(grown, nodes)
    for node in nodes[:20]:
        name = grown.hierarchy.name(node.id)
        same = [id for id in grown.hierarchy.named(name) if id != node.id]
        if same:
            stderr.print(f"{name} ({node.id}): the bundle has other classes of that name: {', '.join(same[:5])}")


def _mention_looks(grown: Bundle, nodes: Sequence[Node]) -> None:
    """Words that this bundle cannot use; or, where it could, that there are none."""
    used, wordless = "looks" in grown.vectors.names, [node for node in nodes if not grown.hierarchy.look(node.id)]
    if not used and any(node.looks for node in nodes):
        stderr.print(
            "This bundle was trained without the vectors `looks`: what the class looks like is kept, but changes "
            "nothing. Train one with --vectors glove+text+looks."
        )
    elif used and wordless:
        names = list_some([grown.hierarchy.name(node.id) for node in wordless])
        how = "--looks" if len(nodes) == 1 else "a column looks"
        stderr.print(
            f'Nothing says what it looks like: {names}. A sentence would help: {how}, e.g. "tall green plastic bin on '
            'two wheels with a hinged lid".'
        )


def _describe(bundle: Bundle, id: str) -> dict[str, Any]:
    trust, coverage = bundle.solution.trust, bundle.vectors.coverage
    return {
        "id": id,
        "name": bundle.hierarchy.name(id),
        "parents": bundle.hierarchy.parents(id),
        "trust": None if trust is None else float(trust[bundle.hierarchy.index(id)]),
        "without_vector": coverage is not None and id in coverage.zero,
    }


def _show(added: list[dict[str, Any]], out: Path, limit: int = 20) -> None:
    for item in added[:limit]:
        trust = "" if item["trust"] is None else f", trust {item['trust']:.2f}"
        note = "; no word of its name has a vector, so only the hierarchy counts" if item["without_vector"] else ""
        stdout.print(f"{item['name']} ({item['id']}) under {', '.join(item['parents'])}{trust}{note}")
    if len(added) > limit:
        stdout.print(f"... and {len(added) - limit:,} more")
    stdout.print(f"Try it: unseen classify PHOTO --bundle {out}")


@command(
    "teach",
    examples="""
    unseen teach my-bundle --photos photos --out taught
    unseen teach my-bundle --photos labelled.txt --out taught
    unseen teach sounds --features clips.npz --out taught
    unseen teach taught --forget labradoodle --out taught
    """,
)
def teach(
    bundle: options.Bundle,
    out: options.Out,
    photos: Annotated[str | None, Option(help=f"{options.BY_CLASS_HELP}.")] = None,
    features: options.Features = None,
    forget: Annotated[list[str] | None, Option(help="A class that forgets its photos; repeatable.")] = None,
    overwrite: options.Overwrite = False,
    trust_code: options.TrustCode = False,
    device: options.Device = "auto",
    json_: JsonFlag = False,
) -> None:
    """Teach classes of a bundle, unseen or seen, with a few photos of each; they add to what was taught before."""
    if sum([photos is not None, features is not None, bool(forget)]) != 1:
        raise typer.BadParameter("give photos with --photos DIR, features with --features FILE, or --forget a class")

    model = load(bundle, device=device, trust_code=trust_code)
    old, source = model.bundle, photos or features
    old.check_output(out, overwrite)  # before photos are read
    if source is None:
        ids = {find_class(name, old.hierarchy) for name in forget or ()}
        changed, given = teaching.forget(old, list(ids)), PhotosByClass()
        classes, new = len(ids), 0
    else:
        given = read_by_class(model.bundle, lambda: model.network, source)
        changed = teaching.teach(old, given.photos)
        classes, new = len(given.photos), count_photos(changed) - count_photos(old)
        mention_unused(given, new)
    changed.save(out, overwrite=overwrite)
    calibration = changed.calibration
    if calibration is not None and calibration.before_teaching:
        bound = "" if calibration.harm is None else f" more than {calibration.harm:g} points of accuracy"
        stderr.print(
            f"The calibration is older than these photos, so that seen classes may lose{bound}. With photos of seen "
            f"classes, fit it again: unseen calibrate {out} --photos DIR --out {out}"
        )
    result = {
        "bundle": str(out),
        "classes": classes,
        "photos": new,
        "unreadable": len(given.unreadable),
        "skipped_classes": len(given.skipped),
    }
    counted = f"{classes:,} {'class' if classes == 1 else 'classes'}"
    done = f"forgot what {counted} had been taught" if forget else f"{counted} taught with {new:,} photos"
    emit(result, json_, lambda: stdout.print(f"{out}: {done}"))


def count_photos(bundle: Bundle) -> int:
    return sum(taught.photos for taught in bundle.taught.values())


def mention_unused(given: PhotosByClass, new: int) -> None:
    """Photos that taught nothing."""
    for item in given.unreadable:
        stderr.print(f"unreadable {item.photo}: {item.why}")
    if given.skipped:
        stderr.print(
            f"{len(given.skipped):,} folders or labels are not of a class of the bundle: {list_some(given.skipped)}"
        )
    known = sum(len(photos.checksums) for photos in given.photos.values()) - new
    if known:
        stderr.print(f"{known:,} photos were taught before and do not count again")
