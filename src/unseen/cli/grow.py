"""`unseen add`, `remove` and `rename`: other classes for a finished bundle, without training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, say, stdout
from unseen.errors import UnseenError

BundleArgument = Annotated[Path, typer.Argument(help="The bundle.")]
OutOption = Annotated[Path, typer.Option(help="Where the changed bundle goes; may be the same folder.")]


@command(
    "add",
    examples="""
    unseen add my-bundle --name okapi --parent n02437136 --out grown
    unseen add my-bundle --name "rescue drone" --parent n03245889 --definition "a drone that finds people" --out grown
    unseen add my-bundle --csv new-classes.csv --out grown
    """,
)
def add(
    bundle: BundleArgument,
    out: OutOption,
    name: Annotated[list[str] | None, typer.Option(help="The class's name; repeat for synonyms.")] = None,
    parent: Annotated[list[str] | None, typer.Option(help="Id or name of a parent; may be repeated.")] = None,
    id: Annotated[str | None, typer.Option(help="The class's id; made from the name if not given.")] = None,
    definition: Annotated[str, typer.Option(help="What it is, in a sentence.")] = "",
    csv: Annotated[Path | None, typer.Option(help="Many classes: a CSV with id,name,parent[,definition].")] = None,
    json_: JsonFlag = False,
) -> None:
    """Add classes to a bundle by name and parent: their classifiers are predicted at once."""
    if (csv is None) == (not name):
        raise UnseenError("name a class with --name and --parent, or give many with --csv FILE; one of the two")
    if name and not parent:
        raise UnseenError("a new class needs a --parent: an id or a name of the hierarchy")

    from unseen.bundle import Bundle
    from unseen.grow import add_classes
    from unseen.suggest import slug
    from unseen.taxonomy import Node
    from unseen.taxonomy_sources import read_additions

    old = Bundle.load(bundle)
    if csv is not None:
        nodes = read_additions(csv, old.taxonomy)
    else:
        nodes = [Node(id or slug(name[0]), tuple(name), tuple(parent), definition)]
    grown = add_classes(old, nodes)
    grown.save(out)
    guessed = grown.solution.details.get("text_guessed")
    if guessed:
        say("The sentence encoder is not installed: the text of new classes is guessed from their parents' "
            "(pip install 'unseen\\[text]').")  # fmt: skip
    added = [_describe(grown, node.id) for node in nodes]
    result = {"bundle": str(out), "added": added, "nodes": len(grown)}
    emit(result, json_, lambda: [_show(item) for item in added])


@command("remove", examples="unseen remove my-bundle --id okapi --out smaller")
def remove(
    bundle: BundleArgument,
    out: OutOption,
    id: Annotated[list[str], typer.Option(help="Id of a class to remove; may be repeated.")],
    json_: JsonFlag = False,
) -> None:
    """Remove classes from a bundle; their children go to their parents."""
    from unseen.bundle import Bundle
    from unseen.grow import remove_classes

    smaller = remove_classes(Bundle.load(bundle), id)
    smaller.save(out)
    result = {"bundle": str(out), "removed": id, "nodes": len(smaller)}
    emit(result, json_, lambda: stdout.print(f"{out}: {len(smaller):,} nodes left"))


@command("rename", examples='unseen rename my-bundle --id n02439398 --name "forest giraffe" --name okapi --out renamed')
def rename(
    bundle: BundleArgument,
    out: OutOption,
    id: Annotated[str, typer.Option(help="Id of the class.")],
    name: Annotated[list[str], typer.Option(help="Its new name; repeat for synonyms.")],
    json_: JsonFlag = False,
) -> None:
    """Give a class of a bundle other names; its classifier stays."""
    from unseen.bundle import Bundle
    from unseen.grow import rename_class

    renamed = rename_class(Bundle.load(bundle), id, name)
    renamed.save(out)
    emit({"bundle": str(out), "id": id, "names": name}, json_, lambda: stdout.print(f"{out}: {id} is now {name[0]}"))


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


def _show(item: dict) -> None:
    trust = "" if item["trust"] is None else f", trust {item['trust']:.2f}"
    note = "; no word of its name has a vector, so only the hierarchy counts" if item["without_vector"] else ""
    stdout.print(f"[bold]{item['name']}[/bold] ({item['id']}) under {', '.join(item['parents'])}{trust}{note}")
