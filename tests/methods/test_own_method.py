"""A method of the user's own, ten lines in a module, taken through train, evaluate, add and export."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import unseen
from support.command_line import run_command
from support.own_methods import forget
from support.problems import PARENTS, SEEN
from support.tiny_network import make_photos
from unseen.bundle import add
from unseen.methods import method_names
from unseen.util.errors import UnseenError

METHOD = '''
from unseen import Method, Solution
from unseen.methods.projections import Append1

class Nearest(Method):
    """Every class has the classifier of the seen class with the most similar vector."""
    def fit(self, problem, run):
        return Solution(self.predict(problem, {}), Append1())
    def predict(self, problem, state, rows=None):
        vectors = problem.vectors.matrix
        return problem.targets()[(vectors[problem.rows_or_all(rows)] @ vectors[problem.seen].T).argmax(1)]
'''
NAME = "own_method:Nearest"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A user's folder with the module, a hierarchy and photos; nothing of it is imported, before or after."""
    (tmp_path / "own_method.py").write_text(METHOD)
    rows = [f"{id},{id},{'|'.join(parents)}" for id, parents in PARENTS.items()]
    (tmp_path / "tree.csv").write_text("\n".join(["id,name,parents", *rows]))
    make_photos(tmp_path / "photos", a_class=2)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget("own_method")


def is_imported() -> bool:
    return "own_method" in sys.modules


def run(*arguments: str) -> dict:
    done = run_command(*arguments, "--json")
    assert done.code == 0, done.err
    return done.json


def train(out: str = "bundle") -> dict:
    network = ("--network", "support.tiny_network:build")
    return run("train", "--method", NAME, "--hierarchy", "tree.csv", "--vectors", "glove", *network, "--out", out)


def test_by_command_line(folder):
    assert train()["method"] == NAME and is_imported()
    forget("own_method")
    assert run("info", "bundle")["method"] == NAME
    assert run("evaluate", "bundle", "--photos", "photos", "--candidates", "seen")["images"] == 2 * len(SEEN)
    assert run("export", "bundle", "--to", "onnx", "--out", "model.onnx")["classes"] == len(PARENTS)
    assert not is_imported()

    spaniel = ("add", "bundle", "--name", "spaniel", "--parent", "dog", "--out", "grown")
    refused = run_command(*spaniel)
    assert refused.code == 1 and not is_imported() and not Path("grown").exists()
    assert f"names the method {NAME}, which is not part of unseen" in refused.err
    assert str(folder / "own_method.py") in refused.err and "--trust-code" in refused.err

    trusted = run_command(*spaniel, "--trust-code", "--json")
    assert trusted.code == 0, trusted.err
    assert f"Importing own_method from {folder / 'own_method.py'}." in trusted.err
    assert trusted.json["added"][0]["id"] == "spaniel"
    forget("own_method")
    assert run("evaluate", "grown", "--photos", "photos", "--candidates", "any")["images"] == 2 * len(SEEN)
    assert not is_imported()


def test_by_python(folder, tmp_path, caplog):
    bundle = unseen.train(
        "tree.csv", "support.tiny_network:build", NAME, "glove", out="bundle", run=unseen.Run(show_progress=False)
    ).bundle
    assert method_names()[-1] == NAME
    forget("own_method")
    model = unseen.load("bundle")
    assert model.bundle.method == NAME and (model.bundle.solution.classifiers == bundle.solution.classifiers).all()
    assert model.evaluate("photos", "seen").images == 2 * len(SEEN)
    assert model.export("onnx", tmp_path / "model.onnx")["classes"] == len(PARENTS)
    with pytest.raises(UnseenError, match="pass trust_code=True"):
        model.add("spaniel", parents=["dog"])
    with pytest.raises(UnseenError, match="import own_method first, in Python"):
        model.explain("cat")
    assert not is_imported()

    caplog.set_level("INFO")
    spaniel = unseen.Node("spaniel", ("spaniel",), ("dog",))
    grown = add(model.bundle, [spaniel], trust_code=True)
    assert f"Importing own_method from {folder / 'own_method.py'}." in caplog.messages
    assert len(grown) == len(PARENTS) + 1
    assert model.add("spaniel", parents=["dog"]) == "spaniel"  # it is registered now
    assert model.explain("cat").neighbours


def test_imported_by_the_user_it_needs_no_more_trust(folder, monkeypatch):
    train()
    forget("own_method")
    Path("own_method.py").write_text(
        METHOD.replace("class", "@register('nearest')\nclass").replace("Solution\n", "Solution, register\n")
    )
    monkeypatch.syspath_prepend(str(folder))
    import own_method

    model = unseen.load("bundle")
    assert model.add("spaniel", parents=["dog"]) == "spaniel"
    assert type(model.bundle.make_method()) is own_method.Nearest
    assert method_names()[-1] == "nearest"


def test_a_bundle_of_a_method_that_is_nowhere_can_still_be_used(folder):
    train()
    forget("own_method")
    Path("own_method.py").unlink()
    model = unseen.load("bundle")
    assert model.evaluate("photos", "seen").images == 2 * len(SEEN)
    with pytest.raises(UnseenError, match="there is no Python module 'own_method' here"):
        model.add("spaniel", parents=["dog"])
    model.bundle.method = "nearest"
    with pytest.raises(UnseenError, match="'nearest' is not part of unseen: import the module that registers it"):
        model.add("spaniel", parents=["dog"])


def test_not_even_the_package_around_it_is_imported_without_trust(folder):
    train()
    forget("own_method")
    (folder / "own_package").mkdir()
    (folder / "own_package" / "__init__.py").write_text("raise SystemExit('this was run')")
    (folder / "own_package" / "inner.py").write_text(METHOD)
    model = unseen.load("bundle")
    model.bundle.method = "own_package.inner:Nearest"
    with pytest.raises(UnseenError, match=str(folder / "own_package" / "inner.py")):
        model.add("spaniel", parents=["dog"])
