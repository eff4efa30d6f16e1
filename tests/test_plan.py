"""The plan of the house: layers drawn as they are, and a public API in which no module hides a function."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType

import pytest

import unseen
import unseen_lab

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = [name for name in unseen.__all__ if name != "__version__"]


@pytest.fixture
def draw_plan(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module("draw_plan")


def modules() -> list[str]:
    return [module.name for module in walk_packages(unseen.__path__, "unseen.") if module.name != "unseen.__main__"]


def test_the_page_shows_the_layers_as_they_are(draw_plan):
    """Line counts may drift by a tenth; layers, packages and their sentences may not."""
    shown, actual = draw_plan.drawn(), draw_plan.rows()
    command = "run `python tools/draw_plan.py`"
    assert [(row[0], row[1], row[3]) for row in shown] == [(row[0], row[1], row[3]) for row in actual], command
    for (_, package, lines, _), (_, _, now, _) in zip(shown, actual, strict=True):
        assert abs(lines - now) <= max(100, now / 10), f"{package} has {now} lines: {command}"


def test_the_page_shows_every_package(draw_plan):
    packages = {
        f"{tree.__name__}.{module.name}" for tree in (unseen, unseen_lab) for module in iter_modules(tree.__path__)
    }
    assert {package for _, package, _, _ in draw_plan.drawn()} == packages - {"unseen.__main__"}


def test_the_guide_shows_the_way_of_a_photo_as_it_is(draw_plan):
    shown = draw_plan.WALK.search((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))[2]
    assert shown.strip() == draw_plan.draw_walk().strip(), "run `python tools/draw_plan.py`"


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_explains_itself(name):
    thing = getattr(unseen, name)
    doc = inspect.getdoc(thing) or ""
    assert doc.strip() and not doc.startswith(f"{name}("), f"unseen.{name} has no docstring of its own"
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
            attribute = vars(module).get(child.name)
            if attribute is not None and not isinstance(attribute, ModuleType):
                hidden.append(f"{package}.{child.name}")
        reexported = getattr(module, "__all__", [])
        hidden += [f"{package}.{name}" for name in reexported if isinstance(getattr(module, name, None), ModuleType)]
    assert hidden == []
