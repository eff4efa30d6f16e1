"""`unseen add`, `remove`, `rename` and `teach`: other classes for a finished bundle, without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from unseen.apps.cli import options
from unseen.apps.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.util.devices import quick_start
from unseen.util.errors import UnseenError
from unseen.util.names import how_to_install, list_some

if TYPE_CHECKING:
    from unseen.answers.photos import PhotosByClass


@command(
    "add",
    examples="""
    unseen add my-bundle --name labradoodle --parent poodle --out grown
    unseen add my-bundle --name "rescue drone" --parent n03245889 --definition "a drone that finds people" --out grown
    unseen add my-bundle --name "wheelie bin" --parent ashcan --looks "tall green plastic bin on two wheels" --out grown
    unseen add my-bundle --name labradoodle --parent poodle --photos labradoodles/ --out grown
    unseen add my-bundle --id n02456645 --out grown
    unseen add my-bundle --csv new-classes.csv --out grown
    unseen add --csv new-classes.csv --out grown
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

    with quick_start():
        from unseen.bundle import Bundle
        from unseen.bundle.grow import add, already_classes
        from unseen.hierarchy.core import Node
        from unseen.hierarchy.files import read_additions
        from unseen.naming.meaning import with_parent_ids
        from unseen.training.default import default_bundle
        from unseen.util.names import slug

        # The default bundle belongs to nobody: without a path it is not replaced.
        old = replace(default_bundle(), path=None) if bundle is None else Bundle.load(bundle, trust_code=trust_code)
    if csv is None:
        names = tuple(name or ())
        node = Node(id or slug(names[0]), names, tuple(parent or ()), definition, " ".join(looks.split()))
        nodes, known = with_parent_ids([node], old.hierarchy), []
    else:
        nodes = read_additions(csv, old.hierarchy)
        known = already_classes(old, nodes)
        nodes = [node for node in nodes if node.id not in set(known)]
        if not nodes:
            raise UnseenError(f"{csv}: all {len(known):,} classes are in the bundle already: nothing to add")
        if known:
            tell(f"{len(known):,} classes of {csv} are in the bundle already: {list_some(known)}")
    old.check_output(out, overwrite)
    grown = add(old, nodes, vectors, trust_code)
    if photos is not None:
        grown = _taught(grown, nodes, photos, csv is not None)
    grown.save(out, overwrite=overwrite)
    _tell(grown, nodes)
    added = [_describe(grown, node.id) for node in nodes]
    result = {"bundle": str(out), "added": added, "already_there": known, "nodes": len(grown)}
    emit(result, json_, lambda: _show(added, out))


@command("remove", examples="unseen remove my-bundle --id okapi --out smaller")
def remove(
    bundle: options.Bundle,
    out: options.Out,
    id: Annotated[list[str], Option(help="Id of a class to remove; may be repeated.")],
    overwrite: options.Overwrite = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Remove classes from a bundle; their children go to their parents."""
    from unseen.bundle import Bundle
    from unseen.bundle.grow import remove

    smaller = remove(Bundle.load(bundle, trust_code=trust_code), id)
    smaller.save(out, overwrite=overwrite)
    result = {"bundle": str(out), "removed": id, "nodes": len(smaller)}
    emit(result, json_, lambda: stdout.print(f"{escaped(out)}: {len(smaller):,} nodes left"))


@command("rename", examples='unseen rename my-bundle --id n02439398 --name "forest giraffe" --name okapi --out renamed')
def rename(
    bundle: options.Bundle,
    out: options.Out,
    id: Annotated[str, Option(help="Id of the class.")],
    name: Annotated[list[str], Option(help="Its new name; repeat for synonyms.")],
    overwrite: options.Overwrite = False,
    trust_code: options.TrustCode = False,
    json_: JsonFlag = False,
) -> None:
    """Give a class of a bundle other names; its classifier stays."""
    from unseen.bundle import Bundle
    from unseen.bundle.grow import rename

    rename(Bundle.load(bundle, trust_code=trust_code), id, name).save(out, overwrite=overwrite)
    done = escaped(f"{out}: {id} is now {name[0]}")
    emit({"bundle": str(out), "id": id, "names": name}, json_, lambda: stdout.print(done))


def _taught(bundle, nodes, photos: str, by_class: bool):
    """The bundle with its new classes taught: one by all photos of a folder, several by a folder each."""
    from unseen.answers.photos import read_by_class, read_one_class
    from unseen.bundle.teach import teach
    from unseen.model import load

    model = load(bundle)
    if not by_class:
        return teach(bundle, {nodes[0].id: read_one_class(model, photos)})
    given = read_by_class(model, photos)
    strangers = sorted(set(given.photos) - {node.id for node in nodes})
    if strangers:
        raise UnseenError(f"{photos}: {', '.join(strangers[:5])} are not among the new classes: use `unseen teach`")
    tell_about(given, sum(len(photos.checksums) for photos in given.photos.values()))
    return teach(bundle, given.photos)


def _tell(grown, nodes) -> None:
    """What a user may not have meant, or should know."""
    if any(node.id in grown.guessed for node in nodes):
        how = how_to_install("text")
        tell(f"The sentence encoder is not installed: the text of new classes is guessed from their parents' ({how}).")
    _tell_of_looks(grown, nodes)
    for node in nodes[:20]:
        name = grown.hierarchy.name(node.id)
        same = [id for id in grown.hierarchy.named(name) if id != node.id]
        if same:
            tell(f"{name} ({node.id}): the bundle has other classes of that name: {', '.join(same[:5])}")


def _tell_of_looks(grown, nodes) -> None:
    """Words that this bundle cannot use; or, where it could, that there are none."""
    used, wordless = "looks" in grown.vectors.names, [node for node in nodes if not grown.hierarchy.look(node.id)]
    if not used and any(node.looks for node in nodes):
        tell("This bundle was trained without the vectors `looks`: what the class looks like is kept, but changes "
             "nothing. Train one with --vectors glove+text+looks.")  # fmt: skip
    elif used and wordless:
        names = list_some([grown.hierarchy.name(node.id) for node in wordless])
        how = "--looks" if len(nodes) == 1 else "a column looks"
        tell(f"Nothing says what it looks like: {names}. A sentence would help: {how}, e.g. \"tall green plastic bin "
             "on two wheels with a hinged lid\".")  # fmt: skip


def _describe(bundle, id: str) -> dict:
    trust = bundle.solution.trust
    return {
        "id": id,
        "name": bundle.hierarchy.name(id),
        "parents": bundle.hierarchy.parents(id),
        "trust": None if trust is None else float(trust[bundle.hierarchy.index(id)]),
        "without_vector": id in bundle.vectors.coverage.zero,
    }


def _show(added: list[dict], out: Path, most: int = 20) -> None:
    for item in added[:most]:
        trust = "" if item["trust"] is None else f", trust {item['trust']:.2f}"
        note = "; no word of its name has a vector, so only the hierarchy counts" if item["without_vector"] else ""
        text = escaped(f"({item['id']}) under {', '.join(item['parents'])}{trust}{note}")
        stdout.print(f"[bold]{escaped(item['name'])}[/bold] {text}")
    if len(added) > most:
        stdout.print(f"... and {len(added) - most:,} more")
    stdout.print(f"Try it: unseen classify PHOTO --bundle {escaped(out)}")


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

    from unseen.answers.photos import PhotosByClass, read_by_class
    from unseen.bundle import teach as teaching
    from unseen.model import load
    from unseen.naming.meaning import find_class

    model = load(bundle, device=device, trust_code=trust_code)
    old, source = model.bundle, photos or features
    old.check_output(out, overwrite)  # before photos are read
    if source is None:
        ids = {find_class(name, old.hierarchy) for name in forget or ()}
        changed, given = teaching.forget(old, list(ids)), PhotosByClass()
        classes, new = len(ids), 0
    else:
        given = read_by_class(model, source)
        changed = teaching.teach(old, given.photos)
        classes, new = len(given.photos), count_photos(changed) - count_photos(old)
        tell_about(given, new)
    changed.save(out, overwrite=overwrite)
    if changed.calibration is not None and changed.calibration.before_teaching:
        bound = (
            "" if changed.calibration.harm is None else f" more than {changed.calibration.harm:g} points of accuracy"
        )
        tell(f"The calibration is older than these photos, so that seen classes may lose{bound}. With photos of seen "
             f"classes, fit it again: unseen calibrate {out} --photos DIR --out {out}")  # fmt: skip
    result = {
        "bundle": str(out),
        "classes": classes,
        "photos": new,
        "unreadable": len(given.unreadable),
        "skipped_classes": len(given.skipped),
    }
    counted = f"{classes:,} {'class' if classes == 1 else 'classes'}"
    done = f"forgot what {counted} had been taught" if forget else f"{counted} taught with {new:,} photos"
    emit(result, json_, lambda: stdout.print(f"{escaped(out)}: {done}", soft_wrap=True))


def count_photos(bundle) -> int:
    return sum(taught.photos for taught in bundle.taught.values())


def tell_about(given: PhotosByClass, new: int) -> None:
    """What a user may not have meant."""
    for item in given.unreadable:
        tell(f"unreadable {item.photo}: {item.why}")
    if given.skipped:
        tell(f"{len(given.skipped):,} folders or labels are not of a class of the bundle: {list_some(given.skipped)}")
    known = sum(len(photos.checksums) for photos in given.photos.values()) - new
    if known:
        tell(f"{known:,} photos were taught before and do not count again")
