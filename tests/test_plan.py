"""The plan of the house: layers, no cycles, and a public API in which no module hides a function."""

from __future__ import annotations

import inspect
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import grimp
import pytest
from importlinter.application.use_cases import lint_imports
from importlinter.configuration import configure

import unseen

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = [name for name in unseen.__all__ if name != "__version__"]


def modules() -> list[str]:
    return [module.name for module in walk_packages(unseen.__path__, "unseen.") if module.name != "unseen.__main__"]


def test_no_module_imports_itself_through_others():
    graph = grimp.build_graph("unseen", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


def test_a_folder_imports_only_from_those_below_it(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    configure()
    assert lint_imports(config_filename=".importlinter", cache_dir=None), capsys.readouterr().out


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_explains_itself(name):
    thing = getattr(unseen, name)
    doc = inspect.getdoc(thing) or ""
    assert doc.strip() and not doc.startswith(f"{name}("), f"unseen.{name} has no docstring of its own"
    assert ">>>" in doc, f"the docstring of unseen.{name} has no example"
    assert thing.__module__.startswith("unseen.")
    assert name in dir(unseen)


def test_what_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="no_such_thing"):
        unseen.no_such_thing  # noqa: B018
    assert "no_such_thing" not in dir(unseen)


def test_no_module_hides_a_function():
    """Importing a submodule sets its name in the package: a function of that name would be gone."""
    for name in modules():
        import_module(name)
    hidden = [name for name in PUBLIC if isinstance(getattr(unseen, name), ModuleType)]
    for package in ["unseen", *(name for name in modules() if hasattr(import_module(name), "__path__"))]:
        module = import_module(package)
        for child in iter_modules(module.__path__):
            own = vars(module).get(child.name)
            if own is not None and not isinstance(own, ModuleType):
                hidden.append(f"{package}.{child.name}")
        reexported = getattr(module, "__all__", [])
        hidden += [f"{package}.{name}" for name in reexported if isinstance(getattr(module, name, None), ModuleType)]
    assert hidden == []


def test_every_package_has_its_folder_of_tests():
    source, tests = Path(unseen.__file__).parent, ROOT / "tests"
    packages = {file.parent.relative_to(source) for file in source.rglob("__init__.py")} - {Path()}
    folders = {file.parent.relative_to(tests) for file in tests.rglob("test_*.py")} - {Path()}
    assert packages - folders == set()
    # Other folders have tests of what lies in folders of these names.
    assert folders - packages == {Path("benchmarks"), Path("docs"), Path("tools")}
