"""The laboratory uses public names of the tool: what its packages export, and no module within them."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import unseen_lab

ROOT = Path(unseen_lab.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def imports_of_the_tool(path: Path) -> list[tuple[str, str]]:
    """(package, name) of every import from `unseen`, also within functions."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unseen":
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names if alias.name.split(".")[0] == "unseen"]
    return found


def is_public(package: str, name: str) -> bool:
    module = importlib.import_module(package)
    return hasattr(module, "__path__") and (not name or name in getattr(module, "__all__", ()))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_public_names_are_imported(path):
    private = [f"{package}.{name}" for package, name in imports_of_the_tool(path) if not is_public(package, name)]
    assert private == []


def test_a_module_within_a_package_is_not_public():
    assert is_public("unseen.evaluation", "evaluate") and is_public("unseen", "")
    assert not is_public("unseen.evaluation.protocol", "evaluate")
    assert not is_public("unseen.evaluation", "metrics")
