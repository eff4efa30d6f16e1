"""`unseen add`, `remove` and `rename`: other classes for a finished bundle, without training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, say, stdout, tell
from unseen.cli.options import TrustCodeOption
from unseen.errors import UnseenError
from unseen.runtime.starts import quick_start

BundleArgument = Annotated[Path, typer.Argument(help="The bundle.")]
OutOption = Annotated[Path, typer.Option(help="Where the changed bundle goes; may be the same folder.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace another bundle in OUT.")]


@command(
    "add",
    examples="""
    unseen add my-bundle --name labradoodle --parent poodle --out grown
    unseen add my-bundle --name "rescue drone" --parent n03245889 --definition "a drone that finds people" --out grown
    unseen add my-bundle --name labradoodle --parent poodle --photos labradoodles/ --out grown
    unseen add my-bundle --id n02456645 --out grown
    unseen add my-bundle --csv new-classes.csv --out grown
    unseen add --csv new-classes.csv --out grown
    """,
)
def add(
    out: OutOption,
    bundle: Annotated[Path | None, typer.Argument(help="The bundle; the default one if none is named.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="The class's name; repeat for synonyms.")] = None,
    parent: Annotated[list[str] | None, typer.Option(help="Id or name of a parent; may be repeated.")] = None,
    id: Annotated[
        str | None,
        typer.Option(help="The class's id; made from the name if not given. A WordNet id brings name and parents."),
    ] = None,
    definition: Annotated[str, typer.Option(help="What it is, in a sentence.")] = "",
    csv: Annotated[Path | None, typer.Option(help="Many classes: a CSV with id,name,parent[,definition].")] = None,
    photos: Annotated[
        Path | None,
        typer.Option(help="Photos of the class to teach it with; with --csv, of several, as DIR/<class id or name>/*."),
    ] = None,
    vectors: Annotated[
        Path | None, typer.Option(help="The bundle's own file of word vectors, if it lies elsewhere now.")
    ] = None,
    overwrite: OverwriteOption = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Add classes to a bundle by name and parent: their classifiers are predicted at once."""
    if (csv is None) != bool(name or id):
        raise UnseenError("name a class with --name and --parent, or give many with --csv FILE; one of the two")
    if csv is not None and (parent or definition):
        raise UnseenError("--parent and --definition go with --name; in a CSV they are columns")

    with quick_start():
        from unseen.bundle import Bundle
        from unseen.bundle.growth import add, already_classes
        from unseen.runtime.text import slug
        from unseen.taxonomy import Node
        from unseen.taxonomy.sources import read_additions
        from unseen.training.default import default_bundle

        # The default bundle is nobody's own: without a path it is not replaced unasked.
        old = replace(default_bundle(tell), path=None) if bundle is None else Bundle.load(bundle, trust_code=trust_code)
    if csv is None:
        names = tuple(name or ())
        nodes, known = [Node(id or slug(names[0]), names, tuple(parent or ()), definition)], []
    else:
        nodes = read_additions(csv, old.taxonomy)
        known = already_classes(old, nodes)
        nodes = [node for node in nodes if node.id not in set(known)]
        if not nodes:
            raise UnseenError(f"{csv}: all {len(known):,} classes are in the bundle already: nothing to add")
        if known:
            some = ", ".join(known[:5]) + (", ..." if len(known) > 5 else "")
            tell(f"{len(known):,} classes of {csv} are in the bundle already: {some}")
    if photos is None:
        grown = add(old, nodes, vectors, out, overwrite, trust_code, tell)
    else:
        old.check_output(out, overwrite)
        grown = _taught(add(old, nodes, vectors, None, overwrite, trust_code, tell), nodes, photos, csv is not None)
        grown.save(out, overwrite=overwrite)
    _tell(grown, nodes)
    added = [_describe(grown, node.id) for node in nodes]
    result = {"bundle": str(out), "added": added, "already_there": known, "nodes": len(grown)}
    emit(result, json_, lambda: _show(added, out))


@command("remove", examples="unseen remove my-bundle --id okapi --out smaller")
def remove(
    bundle: BundleArgument,
    out: OutOption,
    id: Annotated[list[str], typer.Option(help="Id of a class to remove; may be repeated.")],
    overwrite: OverwriteOption = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Remove classes from a bundle; their children go to their parents."""
    from unseen.bundle import Bundle
    from unseen.bundle.growth import remove

    smaller = remove(Bundle.load(bundle, trust_code=trust_code), id, out, overwrite)
    result = {"bundle": str(out), "removed": id, "nodes": len(smaller)}
    emit(result, json_, lambda: stdout.print(f"{escaped(out)}: {len(smaller):,} nodes left"))


@command("rename", examples='unseen rename my-bundle --id n02439398 --name "forest giraffe" --name okapi --out renamed')
def rename(
    bundle: BundleArgument,
    out: OutOption,
    id: Annotated[str, typer.Option(help="Id of the class.")],
    name: Annotated[list[str], typer.Option(help="Its new name; repeat for synonyms.")],
    overwrite: OverwriteOption = False,
    trust_code: TrustCodeOption = False,
    json_: JsonFlag = False,
) -> None:
    """Give a class of a bundle other names; its classifier stays."""
    from unseen.bundle import Bundle
    from unseen.bundle.growth import rename

    rename(Bundle.load(bundle, trust_code=trust_code), id, name, out, overwrite)
    told = escaped(f"{out}: {id} is now {name[0]}")
    emit({"bundle": str(out), "id": id, "names": name}, json_, lambda: stdout.print(told))


def _taught(bundle, nodes, photos: Path, by_class: bool):
    """The bundle with its new classes taught: one by all photos of a folder, several by a folder each."""
    from unseen.bundle.teaching import teach
    from unseen.classifier import load
    from unseen.cli.teach import tell_about
    from unseen.recognition.studies import study_folder, study_photos

    model = load(bundle)
    if not by_class:
        return teach(bundle, {nodes[0].id: study_photos(model, photos)})
    study = study_folder(model, photos)
    new = {node.id for node in nodes}
    strangers = sorted(set(study.photos) - new)
    if strangers:
        raise UnseenError(f"{photos}: {', '.join(strangers[:5])} are not among the new classes: use `unseen teach`")
    tell_about(study, sum(len(given.checksums) for given in study.photos.values()))
    return teach(bundle, study.photos)


def _tell(grown, nodes) -> None:
    """What a user may not have meant, or should know."""
    if any(node.id in grown.guessed for node in nodes):
        say("The sentence encoder is not installed: the text of new classes is guessed from their parents' "
            "(pip install 'unseen\\[text]').")  # fmt: skip
    for node in nodes[:20]:
        name = grown.taxonomy.name(node.id)
        same = [id for id in grown.taxonomy.named(name) if id != node.id]
        if same:
            tell(f"{name} ({node.id}): the bundle has other classes of that name: {', '.join(same[:5])}")


def _describe(bundle, id: str) -> dict:
    row = bundle.taxonomy.index(id)
    trust = bundle.solution.trust
    return {
        "id": id,
        "name": bundle.taxonomy.name(id),
        "parents": bundle.taxonomy.parents(id),
        "trust": None if trust is None else float(trust[row]),
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
