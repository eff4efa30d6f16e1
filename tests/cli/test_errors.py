"""Errors of the library name Python arguments; the command line puts its options in their place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import unseen
from unseen.cli.app import with_options
from unseen.errors import UnseenError

SOURCE = Path(unseen.__file__).parent


@pytest.mark.parametrize(
    ("message", "arguments", "told"),
    [
        ("b is there: use overwrite=True", ["overwrite=True"], "b is there: use --overwrite"),
        ("continue with resume=True, or overwrite=True", ["resume=True", "overwrite=True"], None),
        ("leave them out with skip_missing=True.", ["skip_missing=True"], "leave them out with --skip-missing."),
        ("use vectors='glove'", ["vectors='glove'"], "use --vectors glove"),
        ("validation=0.05 keeps none", ["validation=0.05"], "--validation 0.05 keeps none"),
        ("precision is fp32 or fp16", ["precision"], "--precision is fp32 or fp16"),
        ("the holdouts: omit holdout", ["holdout"], "the holdouts: omit --holdout"),
        ("nothing named: resume=True", [], "nothing named: resume=True"),
    ],
)
def test_arguments_become_options(message, arguments, told):
    told = told or "continue with --resume, or --overwrite"
    assert with_options(UnseenError(message, *arguments)) == told
    assert str(UnseenError(message, *arguments)) == message


def test_a_command_tells_its_options(here, unseen):
    done = unseen("train", "--method", "structural", "--graph", "tree.csv", "--out", "bundle")
    assert done.code == 1 and "replace it with --overwrite" in done.err and "overwrite=True" not in done.err


def errors_raised(path: Path) -> list[str]:
    """The texts within the calls of UnseenError in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UnseenError"
    ]
    texts = [part for call in calls for part in ast.walk(call) if isinstance(part, ast.Constant)]
    return [part.value for part in texts if isinstance(part.value, str)]


def test_no_error_of_the_library_names_an_option():
    library = [path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] != "cli"]
    found = [text for path in library for text in errors_raised(path) if re.search(r"(^|\W)--[a-z]", text)]
    assert len(library) > 100 and found == []
