"""`unseen taxonomy find`, `show` and `export`: what is in a hierarchy."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.tree import Tree

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout
from unseen.errors import UnseenError

GraphOption = Annotated[
    str, typer.Option("--graph", help="wordnet, imagenet, a file of a hierarchy, or imagenet+FILE.")
]


def register(group: typer.Typer) -> None:
    """Add the commands to `unseen taxonomy`."""
    command("find", group=group, examples=FIND)(find)
    command("show", group=group, examples=SHOW)(show)
    command("export", group=group, examples=EXPORT)(export)


FIND = """
unseen taxonomy find drill
unseen taxonomy find "sewing machine" --limit 5
unseen taxonomy find cup --graph products.csv --json
"""


def find(
    word: Annotated[str, typer.Argument(help="A name, the beginning of one, or an id.")],
    graph: GraphOption = "wordnet",
    limit: Annotated[int, typer.Option(min=1, help="How many classes to list at most.")] = 20,
    json_: JsonFlag = False,
) -> None:
    """Look a word up: the ids of the classes that it may mean, with their definitions."""
    from unseen.taxonomy import Taxonomy
    from unseen.taxonomy.search import close_matches, did_you_mean

    taxonomy = Taxonomy.load(graph)
    found = taxonomy.search(word, limit)
    if not found:
        near = close_matches(word, (name for lemmas in taxonomy.lemmas for name in lemmas))
        raise UnseenError(f"{word!r} is in no name of {graph}.{did_you_mean(near)}")
    classes = [_describe(taxonomy, sense) for sense in found]
    emit({"word": word, "graph": graph, "classes": classes}, json_, lambda: _show_found(classes))


def _describe(taxonomy, sense) -> dict:
    parents = [{"id": parent, "name": taxonomy.name(parent)} for parent in taxonomy.parents(sense.id)]
    return {"id": sense.id, "names": list(sense.lemmas), "definition": sense.definition, "parents": parents}


def _show_found(classes: list[dict]) -> None:
    for item in classes:
        above = ", ".join(parent["name"] for parent in item["parents"])
        text = ": ".join(filter(None, (", ".join(item["names"]), item["definition"])))
        under = escaped(f"  (under {above})") if above else ""
        stdout.print(f"[bold]{escaped(item['id'])}[/bold] {escaped(text)}[dim]{under}[/dim]", highlight=False)


SHOW = """
unseen taxonomy show n03239726
unseen taxonomy show poodle --depth 3
unseen taxonomy show drinkware --graph products.csv --json
"""


def show(
    id: Annotated[str, typer.Argument(help="The id of a class, or a name that means one class only.")],
    graph: GraphOption = "wordnet",
    depth: Annotated[int, typer.Option(min=0, help="How many levels below the class to draw.")] = 2,
    json_: JsonFlag = False,
) -> None:
    """Draw a branch of a hierarchy: what is above a class, and the tree of what is below it."""
    from unseen.taxonomy import Taxonomy

    taxonomy = Taxonomy.load(graph)
    id = taxonomy.resolve(id)
    branch = _branch(taxonomy, id, depth)
    above = [{"id": up, "name": taxonomy.name(up)} for up in taxonomy.path_to_root(id)[1:]]
    result = {"graph": graph, "above": above, "branch": branch, "below": len(taxonomy.descendants(id))}
    emit(result, json_, lambda: _draw(result, taxonomy.definition(id)))


def _branch(taxonomy, id: str, depth: int) -> dict:
    """A class and what is below it, `depth` levels deep; `more` counts the children that are left out."""
    children = sorted(taxonomy.children(id), key=lambda child: taxonomy.name(child).lower())
    below = [_branch(taxonomy, child, depth - 1) for child in children] if depth else []
    return {"id": id, "name": taxonomy.name(id), "children": below, "more": 0 if depth else len(children)}


def _draw(result: dict, definition: str) -> None:
    above, branch = result["above"], result["branch"]
    if above:
        stdout.print(f"[dim]{escaped(' > '.join(up['name'] for up in reversed(above)))}[/dim]", highlight=False)
    tree = Tree(_label(branch) + (f": {escaped(definition)}" if definition else ""))
    _grow(tree, branch)
    stdout.print(tree, highlight=False)
    stdout.print(f"{result['below']:,} classes below {escaped(branch['name'])}", highlight=False)


def _label(branch: dict) -> str:
    more = f" [dim]+{branch['more']}[/dim]" if branch["more"] else ""
    return f"[bold]{escaped(branch['name'])}[/bold] {escaped(branch['id'])}{more}"


def _grow(tree: Tree, branch: dict) -> None:
    for child in branch["children"]:
        _grow(tree.add(_label(child)), child)


EXPORT = """
unseen taxonomy export --out wordnet.csv
unseen taxonomy export --graph imagenet --below n02084071 --out dogs.csv
unseen taxonomy export --graph imagenet+new.csv > all.csv
"""


def export(
    graph: GraphOption = "wordnet",
    below: Annotated[str | None, typer.Option(help="Only this class (id or name) and what is below it.")] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV to write; without it, standard output.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
    json_: JsonFlag = False,
) -> None:
    """Write a hierarchy as a CSV of ids, names, parents and definitions, which `--graph FILE` reads again."""
    from unseen.runtime.files import write_atomically
    from unseen.taxonomy import Taxonomy

    if json_ and out is None:
        raise UnseenError("--json needs --out FILE: standard output holds either the table or the JSON object")
    if out is not None and out.exists() and not overwrite:
        raise UnseenError(f"{out} exists already: choose another name, or replace it with --overwrite")
    taxonomy = Taxonomy.load(graph)
    if below is not None:
        root = taxonomy.resolve(below)
        taxonomy = taxonomy.subgraph([root, *taxonomy.descendants(root)], closed=False)
    table = _table(taxonomy)
    if out is None:
        sys.stdout.write(table)
        return
    write_atomically(out, table.encode())
    result = {"out": str(out), "graph": graph, "classes": len(taxonomy), "edges": len(taxonomy.parent_idx)}
    emit(result, json_, lambda: stdout.print(f"{escaped(out)}: {len(taxonomy):,} classes", highlight=False))


def _table(taxonomy) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("id", "name", "parent", "definition"))
    for id, lemmas in zip(taxonomy.ids, taxonomy.lemmas, strict=True):
        writer.writerow((id, "|".join(lemmas), "|".join(taxonomy.parents(id)), taxonomy.definition(id)))
    return text.getvalue()
