"""Messages show names from outside just as they are, each on one line; commands are imported one at a time."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import pytest
from typer import Argument
from typer.testing import CliRunner

from unseen.apps.cli.app import COMMANDS, JsonFlag, _loaded, command
from unseen.apps.cli.output import emit, print_table, stderr, stdout
from unseen.hierarchy.core import Hierarchy
from unseen.util.settings import AT_LEAST_1, check_settings

LONG = "a " * 100  # wider than any screen


def test_text_is_printed_just_as_it_is(capsys):
    text = f"x[red].jpg, [/b] and module:boom: {LONG}."
    stdout.print(text)
    stderr.print(text)
    assert capsys.readouterr() == (f"{text}\n", f"{text}\n")


def test_a_table_is_never_cut(capsys):
    print_table(["[b]", "figure"], [[LONG, "1"]])
    shown = capsys.readouterr().out
    assert LONG in shown and "[b]" in shown and "…" not in shown


def test_an_error_names_what_was_typed(unseen, tmp_path):
    done = unseen("train", "--network", "no_such:boom:x[red]", "--out", tmp_path / "new")
    assert done.code == 1 and done.err.startswith("error: no_such:boom:x[red]: there is no Python module 'no_such'")


def test_what_the_system_refuses_is_one_line(unseen):
    done = unseen("info", "x" * 300)
    assert done.code == 1 and done.err == f"error: {'x' * 300} cannot be read: File name too long"


@pytest.mark.slow
def test_names_that_are_not_unicode_are_told(capsys, tmp_path):
    emit({"photo": "\udcff.png", "name": "é"}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"photo": "\udcff.png", "name": "é"}
    command = [sys.executable, "-m", "unseen", "hierarchy", "check", os.fsencode(tmp_path) + b"/\xff.csv"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "\\udcff.csv: cannot be read: No such file" in done.stderr


def test_examples_fit_the_default_bundle():
    modules = sorted({module for module, _ in COMMANDS.values()})
    shown = "".join(inspect.getsource(import_module(name, "unseen.apps.cli")) for name in modules)
    assert all(Hierarchy.imagenet().resolve(name) for name in re.findall(r"--candidates subtree:(\w+)", shown))
    (new,) = re.findall(r"unseen add \S+ --id (\w+)", shown)
    assert new in Hierarchy.wordnet() and new not in Hierarchy.imagenet()


def cpu_seconds(*arguments: str) -> float:
    """What a command takes in a process of its own; the better of two runs, since the machine is shared."""

    def run() -> float:
        before = os.times()
        done = subprocess.run([sys.executable, "-m", "unseen", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return min(run(), run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "budget"),  # about twice what it takes; torch alone takes 1.2 s
    [("--help", 0.4), ("info --help", 0.9), ("train --help", 0.9), ("classify --help", 0.9)],
)
def test_help_is_quick(command, budget):
    assert cpu_seconds(*command.split()) < budget


@pytest.mark.slow
def test_a_class_is_added_quickly(here):
    add = ["add", "bundle", "--name", "rescue dog", "--parent", "dog", "--out", "grown", "--overwrite"]
    assert cpu_seconds(*add) < 1.6


@pytest.mark.slow
def test_unseen_is_imported_quickly():
    script = "import time; start = time.process_time(); import unseen; print(time.process_time() - start)"
    taken = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout for _ in range(2)]
    assert min(map(float, taken)) < 0.15


def test_help_lists_every_command(unseen):
    listed = unseen("--help").out
    assert all(re.search(rf"^│ {name} ", listed, re.MULTILINE) for name in COMMANDS)
    registered = {
        name
        for module in {module for module, _ in COMMANDS.values()}
        for name in re.findall(
            r'^@command\(\s*"(\w+)"', inspect.getsource(import_module(module, "unseen.apps.cli")), re.M
        )
    }
    assert registered - {"check", "suggest", "find", "show"} == set(COMMANDS) - {"hierarchy"}


def test_a_misspelt_command_is_told(unseen):
    done = unseen("clasify")
    assert done.code == 2 and "Did you mean 'classify'?" in done.err


def test_options_from_the_environment_and_from_a_file(here, unseen, monkeypatch):
    def labels(*before: str, after: tuple[str, ...] = ()) -> int:
        done = unseen(*before, "classify", "photo.png", "--trust-code", "--json", *after)
        assert done.code == 0, done.err
        return len(done.json["photos"][0]["labels"])

    Path("unseen.toml").write_text(
        'bundle = "bundle"\ncandidates = "seen"\nseen-share = 0.4\n[classify]\nk = 4\n[train]\nepochs = 2\n'
    )
    assert labels("--config", "unseen.toml") == 4
    assert labels("--config", "unseen.toml", after=("-k", "1")) == 1
    Path("wrong.toml").write_text("seen-share = 2\n")
    assert "seen_share must be" in unseen("--config", "wrong.toml", "classify", "photo.png").err
    monkeypatch.setenv("UNSEEN_CLASSIFY_BUNDLE", "bundle")
    assert labels() == 5
    monkeypatch.setenv("UNSEEN_CONFIG", "unseen.toml")
    monkeypatch.setenv("UNSEEN_CLASSIFY_CANDIDATES", "unseen")
    done = unseen("classify", "photo.png", "--trust-code", "--json")
    assert [label["seen"] for label in done.json["photos"][0]["labels"]] == [False] * 4
    monkeypatch.setenv("UNSEEN_CLASSIFY_CONFIDENCE", "much")
    assert unseen("classify", "photo.png").code == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("k = ", "cannot be read as TOML"),
        ("[clasify]\nk = 1\n", "there is no command [clasify]; there are: demo, classify,"),
        (None, "No such file"),
    ],
)
def test_a_configuration_that_is_wrong_is_wrong_usage(here, unseen, text, says):
    if text is not None:
        Path("my.toml").write_text(text)
    done = unseen("--config", "my.toml", "classify", "photo.png")
    shown = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2 and says in shown


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["classify", "--nope", "photo.png"], "No such option: --nope"),
        (["classify", "photo.png", "-k", "0"], "'-k'"),
        (["classify", "photo.png", "--workers", "2"], "add --out FILE"),
        (["clasify", "photo.png"], "Did you mean 'classify'?"),
    ],
)
def test_wrong_usage_is_json_too(unseen, typed, says):
    done = unseen(*typed, "--json")
    assert done.code == 2 and says in done.json["error"] and "Usage" in done.err


@pytest.mark.parametrize(
    ("typed", "at", "offered"), [("unseen cl", 1, "classify"), ("unseen classify --wor", 2, "--workers")]
)
def test_the_shell_completes_commands_and_options(typed, at, offered):
    script = "from unseen.apps.cli import main; main()"
    environment = os.environ | {"_UNSEEN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(at)}
    command = [sys.executable, "-c", f"import sys; sys.argv = ['unseen']; {script}"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert offered in done.stdout.split(), done.stderr


@dataclass(frozen=True)
class Where:
    """Of a photo.

    Args:
        k: How many.
        among: Names of your own.
        quick: In a hurry.
    """

    k: Annotated[int, AT_LEAST_1] = 5
    among: str | None = None
    quick: bool = False


@dataclass(frozen=True)
class When:
    """Of a photo.

    Args:
        day: Of the week.
    """

    day: Literal["monday", "friday"] = "friday"

    def __post_init__(self) -> None:
        check_settings("when", self)


def test_dataclasses_become_options(monkeypatch):
    got = []

    @command("ask")
    def ask(photo: Annotated[str, Argument()], *, where: Where, when: When, json_: JsonFlag = False) -> None:
        got.append((photo, where, when))

    def run(*typed: str):
        return CliRunner().invoke(_loaded["ask"], typed)

    assert run("x.jpg").exit_code == 0 and got.pop() == ("x.jpg", Where(), When())
    assert run("x.jpg", "-k", "2", "--among", "okapi", "--quick", "--day", "monday").exit_code == 0
    assert got.pop() == ("x.jpg", Where(2, "okapi", True), When("monday"))
    monkeypatch.setenv("UNSEEN_ASK_AMONG", "zebra")
    assert run("x.jpg").exit_code == 0 and got.pop()[1].among == "zebra"
    assert "Names of your own." in run("--help").stdout and run("x.jpg", "-k", "0").exit_code == 2
    wrong = run("x.jpg", "--day", "sunday", "--json")
    assert (
        wrong.exit_code == 1 and json.loads(wrong.stdout)["error"] == "when: day must be monday or friday, not 'sunday'"
    )
    monkeypatch.delitem(_loaded, "ask")
