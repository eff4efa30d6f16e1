"""What the documents say about the repository is true: paths exist, modules import, commands have those options."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import unseen
from support.command_line import run_command
from unseen.apps.cli.app import COMMANDS, load_command

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
RUNNABLE = [  # those whose examples need no photos by class
    ROOT / "README.md",
    *(ROOT / "docs" / "reference" / f"{name}.md" for name in ("classify", "bundles", "hierarchies")),
    *(ROOT / "docs" / "reference" / f"{name}.md" for name in ("vectors", "networks", "methods")),
]
BASES = (ROOT, ROOT / "docs", ROOT / "src" / "unseen", ROOT / "docs" / "results")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page):
    text = page.read_text()
    named = re.findall(r"(?<![\w/.-])(?:src|docs|tests|tools|benchmarks)/[\w./-]*\w", text)
    named += re.findall(r"`([a-z_]+/[\w/]+\.(?:py|toml))`", text)
    missing = [path for path in named if not any((base / path).exists() for base in BASES)]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_names_exist(page):
    """Dotted names in code, and what examples import from this package."""
    text = page.read_text()
    names = set(re.findall(r"(?<![\w/.])unseen((?:\.[A-Za-z_]\w*)+)", text))
    for module, imported in re.findall(r"from (unseen[\w.]*) import ([\w, ]+)", text):
        names |= {f"{module.removeprefix('unseen')}.{name.strip()}" for name in imported.split(",")}
    for name in sorted(names):
        assert resolves(name.strip(".").split(".")), f"unseen{name}"


def resolves(parts: list[str]) -> bool:
    found = unseen
    for place, part in enumerate(parts, 1):
        if not hasattr(found, part):
            try:
                import_module("unseen." + ".".join(parts[:place]))
            except ImportError:
                return False
        found = getattr(found, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_have_these_options(page):
    for line in commands_in(page.read_text()):
        words = shlex.split(line, comments=True)
        words = words[words.index("unseen") + 1 :]
        if not words or words[0].startswith("-"):
            continue
        assert words[0] in COMMANDS, line
        command = load_command(words[0])
        if hasattr(command, "commands") and len(words) > 1:
            assert words[1] in command.commands, line
            command = command.commands[words[1]]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert given <= known, line


def commands_in(text: str) -> list[str]:
    """Lines of code blocks that call `unseen`, with their continuation lines, and the same in running text."""
    commands = []
    for language, block in re.findall(r"(?ms)^```([^\n]*)\n(.*?)^```", text):
        lines = block.replace("\\\n", " ").splitlines() if language in ("", "sh") else []
        commands += [line for line in lines if re.match(r"\s*(unseen|torchrun .* -m unseen) ", line)]
    commands += re.findall(r"(?<!`)`(unseen [a-z][^`]*)`(?!`)", text)
    return [line for line in commands if "..." not in line]


def test_the_tour_of_a_photo_names_functions_of_today():
    """From pixels to the verdict and the answer, each step with a function or class that exists."""
    page = (ROOT / "docs" / "how-it-works.md").read_text()
    tour = page.partition("## What happens to a photo")[2].partition("\n## ")[0]
    steps = re.findall(r"(?m)^\d\. \*\*(\w+)", tour)
    assert steps == ["Read", "Transform", "Features", "Scores", "Probabilities", "Verdict", "Answer"]
    source = "\n".join(file.read_text() for file in (ROOT / "src" / "unseen").rglob("*.py"))
    defined = set(re.findall(r"(?m)^\s*(?:def|class) (\w+)", source))
    names = {part for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?|[a-z]+_\w+)`", tour) for part in name.split(".")}
    assert len(names) > 10 and names <= defined


@pytest.mark.slow
def test_examples_run(tmp_path):
    """In one process, each with names of its own; they find photo.jpg and my-bundle."""
    shutil.copy(ROOT / "src" / "unseen" / "apps" / "web" / "static" / "samples" / "coffee.jpg", tmp_path / "photo.jpg")
    parts = [f"exec({snippet!r}, {{'__name__': {page.stem!r}}})" for page in RUNNABLE for snippet in snippets(page)]
    run_python("\n".join(["import unseen", "unseen.load().save('my-bundle')", *parts]), tmp_path)


@pytest.mark.slow
def test_the_first_page_gets_a_newcomer_to_a_label():
    """Its snippet, run as it stands, prints the verdict and the guesses that the page shows."""
    (snippet,) = snippets(ROOT / "docs" / "index.md")
    verdict, *guesses = run_python(snippet, ROOT).splitlines()
    page = (ROOT / "docs" / "index.md").read_text()
    (name,) = re.findall(r"(?m)^Sure: (\w+) \(", page)
    shown = re.findall(r"(?m)^  ([\w ]+?) (?:\(.*\) )? +\d+ %", page)
    assert verdict.startswith(f"sure: {name} (") and {guess.rpartition(" ")[0] for guess in guesses} == set(shown)


def snippets(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def run_python(script: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_version_is_stated_once():
    assert version("unseen") == unseen.__version__
    assert run_command("--version").out == f"unseen {unseen.__version__}\n"
    for name in ("pyproject.toml", "CITATION.cff", "README.md"):
        assert unseen.__version__ not in (ROOT / name).read_text(), name


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name):
    """Those of docs/ are checked when the site is built."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
