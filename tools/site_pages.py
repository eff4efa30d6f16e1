"""Pages of the site that are made from the code: the API reference, the commands; and files that lie outside docs/.

A page of the reference says whose names it lists: `<!-- names of: hierarchy advice -->` becomes an entry for every name
that `unseen/__init__.pyi` takes from these packages. A package whose names no page lists is an error.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
MARKER = re.compile(r"<!-- names of: ([a-z_ ]+) -->")
OUTSIDE = {
    "assets/icon.svg": "src/unseen/apps/web/static/icon.svg",
    "images/coffee.jpg": "src/unseen/apps/web/static/samples/coffee.jpg",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for uri, path in OUTSIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    pages = [file.content_string for file in files.documentation_pages()]
    listed = {package for page in pages for names in MARKER.findall(page) for package in names.split()}
    missing = sorted(public_names().keys() - listed)
    if missing:
        raise PluginError(f"no page of docs/reference lists the public names of: {', '.join(missing)}")
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = inside(markdown, page.file.src_uri)
    markdown = MARKER.sub(lambda found: entries(found[1].split()), markdown)
    return markdown.replace("<!-- commands -->", commands()) if "<!-- commands -->" in markdown else markdown


def inside(markdown: str, uri: str) -> str:
    """Links that are right in the repository, made right in the site: to files outside docs/, and from them."""
    up = "" if uri in OUTSIDE else "../"
    for here, there in OUTSIDE.items():
        markdown = markdown.replace(f"]({up}{there}", f"]({here}")
    return markdown.replace("](docs/", "](") if uri in OUTSIDE else markdown


# -- the API -----------------------------------------------------------------------------------------------------


def public_names() -> dict[str, list[str]]:
    """Package -> the names that `unseen` re-exports from it, in the order of the stub."""
    stub = ast.parse((ROOT / "src" / "unseen" / "__init__.pyi").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for line in stub.body:
        if isinstance(line, ast.ImportFrom) and line.module:
            found.setdefault(line.module.split(".")[0], []).extend(name.asname or name.name for name in line.names)
    return found


def entries(packages: list[str]) -> str:
    names = public_names()
    unknown = sorted(set(packages) - names.keys())
    if unknown:
        raise PluginError(f"docs/reference: unseen/__init__.pyi takes no names from {', '.join(unknown)}")
    return "\n\n".join(f"::: unseen.{name}" for package in packages for name in names[package])


# -- the commands ------------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments, options and examples, as `--help` has them."""
    from unseen.apps.cli.app import COMMANDS, load_command

    return "\n".join(part for name in COMMANDS for part in describe(load_command(name), name))


def describe(command: Any, name: str) -> list[str]:
    """The Markdown of a command; of each of its commands if it is a group."""
    if hasattr(command, "commands"):
        return [part for below, one in command.commands.items() for part in describe(one, f"{name} {below}")]
    rows = [f"| {row[0]} | {row[1]} |" for row in map(parameter, command.params) if row]
    examples = [line.strip("$ ") for line in (command.epilog or "").splitlines() if line.strip().startswith("$")]
    return [
        f"## {name}\n\n{plain(command.help)}\n",
        "```sh\n" + "\n".join(examples) + "\n```\n" if examples else "",
        "\n".join(["| | |", "|---|---|", *rows]) + "\n" if rows else "",
    ]


def parameter(one: Any) -> tuple[str, str] | None:
    """A row of a command's table: how it is written, and what it does with its default."""
    if getattr(one, "hidden", False) or "--help" in one.opts or "--json" in one.opts:
        return None
    written = one.name.upper() if one.param_type_name == "argument" else ", ".join(one.opts)
    told = plain(one.help)
    default = None if callable(one.default) or getattr(one, "is_flag", False) else one.default
    if one.required:
        told += " **Required.**"
    elif default not in (None, "", (), []):
        told += f" Default: `{default}`."
    return f"`{written}`", told


def plain(text: str | None) -> str:
    """Help without the console's markup, safe inside a table."""
    text = re.sub(r"\[/?[a-z ]+\]", "", inspect.cleandoc(text or ""))
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
