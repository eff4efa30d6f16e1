"""Nothing grows without end: what models and servers keep after hundreds of changes, and the bound of every cache."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import inspect
import io
import pkgutil
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, MutableMapping, MutableSet

import pytest

import unseen
from unseen.examples import fruits, photo

ROUNDS, WARM = 200, 20
LARGE = ("Hierarchy", "Bundle", "Model", "Scorer", "View", "Words", "NodeSums", "ClassVectors", "Solution")

# Caches whose keys nobody outside chooses: data files that come with the package or that the user names, and modes.
KEYED_BY_FILES = {"_verify_embedded", "_checksum", "_embedded", "_glove"}
# Containers of a module that grow by what the user's own program or command line registers.
REGISTRIES = {"_registered", "_loaded", "_imported"}


def live() -> Counter[str]:
    """The large things that exist; with the collector off, also those that wait for it."""
    kinds = map(type, gc.get_objects())
    return Counter(kind.__name__ for kind in kinds if kind.__name__ in LARGE and str(kind.__module__)[:7] == "unseen.")


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def grown(change: Callable[[int], None]) -> tuple[Counter[str], int]:
    """What `change` leaves from the 20th round to the 200th: more large things, more bytes."""
    for number in range(WARM):
        change(number)
    before = live()
    tracemalloc.start()
    try:
        for number in range(WARM, ROUNDS):
            change(number)
        things = live() - before
        gc.collect()
        return things, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_model_that_is_changed_two_hundred_times_stays_as_large(no_collector):
    """Without the collector: what waits for it in cycles would be gigabytes in a bundle of 21,000 classes."""
    model, red = fruits(), photo("crimson")

    def change(number: int) -> None:
        id = model.add(f"cranberry {number}", "berry", looks="small, round and red")
        model.classify(red)
        model.teach(id, red)
        model.classify(red, candidates=["lemon", id])
        model.among(["lemon", f"kumquat {number} (citrus)"]).classify(red)
        model.remove(id)

    things, left = grown(change)
    assert not things and left < 2_000_000, (things, left)


@pytest.mark.slow
def test_a_server_whose_classes_change_two_hundred_times_stays_as_large(no_collector):
    from fastapi.testclient import TestClient

    from unseen.apps.web.app import create_app
    from unseen.apps.web.service import Service

    service = Service(fruits())
    client = TestClient(create_app(service), base_url="http://127.0.0.1:8000")
    file = io.BytesIO()
    photo("crimson").save(file, "PNG")
    token = client.post("/api/classify", files={"files": file.getvalue()}).json()["photos"][0]["token"]

    def change(number: int) -> None:
        words = {"name": f"cranberry {number}", "parents": ["berry"]}
        assert client.post("/api/try", json=words | {"tokens": [token]}).status_code == 200
        id = client.post("/api/add", json=words).json()["id"]
        assert client.post("/api/rank", json={"tokens": [token], "watch": [id]}).status_code == 200
        assert client.post("/api/teach", json={"id": id, "token": token}).status_code == 200
        assert client.get(f"/api/classes/{id}").status_code == 200
        assert client.post("/api/explain", json={"id": id}).status_code == 200
        assert client.post("/api/suggest", json={"name": f"red thing {number}"}).status_code == 200
        assert client.get(f"/api/classes/nothing-{number}").status_code == 404
        assert client.post("/api/rank", json={"tokens": [token], "candidates": f"subtree:{number}"}).status_code >= 400
        assert client.delete(f"/api/classes/{id}").status_code == 200

    try:
        things, _ = grown(change)
    finally:
        service.close()
    assert not things, things


def modules():
    names = [info.name for info in pkgutil.walk_packages(unseen.__path__, "unseen.") if "__main__" not in info.name]
    return [importlib.import_module(name) for name in names]


def test_every_cache_has_a_bound():
    """Of all modules: a cache without a bound takes no argument, or one that no request and no file content chooses."""
    problems, count = [], 0
    for module in modules():
        kinds = [one for _, one in inspect.getmembers(module, inspect.isclass) if one.__module__ == module.__name__]
        for owner in (module, *kinds):
            for name, value in vars(owner).items():
                where = f"{owner.__name__}.{name}"
                if isinstance(value, functools._lru_cache_wrapper):
                    count += 1
                    is_bounded = value.cache_parameters()["maxsize"] is not None
                    if not (is_bounded or not inspect.signature(value).parameters or name in KEYED_BY_FILES):
                        problems.append(f"{where}: lru_cache without a bound")
                is_weak = isinstance(value, (weakref.WeakKeyDictionary, weakref.WeakValueDictionary))
                holder = is_weak or (isinstance(value, (MutableMapping, MutableSet)) and name.startswith("_"))
                if holder and not name.isupper() and not name.startswith(("__", "_field")) and name not in REGISTRIES:
                    problems.append(f"{where}: a container that may be a cache; a cache has a bound")
    assert not problems, "\n".join(problems)
    assert count > 10


def test_no_function_makes_a_cache_of_its_own():
    """`cache(lambda: ... self ...)` in a method is a cycle, which keeps large arrays until the collector comes by."""
    wrong = []
    for module in modules():
        tree = inspect.getsource(module)
        wrong += [f"{module.__name__}: {line.strip()}" for line in tree.splitlines() if "cache(lambda" in line]
    assert wrong == []


@pytest.mark.slow
def test_a_thousand_questions_leave_nothing(no_collector):
    """Names of candidates, ids, searches and lists that do not exist, or that differ each time."""
    model = fruits()
    hierarchy = model.bundle.hierarchy

    def ask(number: int) -> None:
        for question in (
            lambda: model.candidates(f"subtree:nothing-{number}"),
            lambda: model.candidates(f"hops:{number}"),
            lambda: model.candidates(["lemon", "lime"][: 1 + number % 2]),
            lambda: model.explain(f"nothing-{number}"),
            lambda: hierarchy.search(f"nothing {number}"),
            lambda: hierarchy.resolve(f"nothing {number}"),
            lambda: model.among([f"kumquat {number} (citrus)", "lemon"]).candidates(),
        ):
            with contextlib.suppress(unseen.UnseenError):
                question()

    things, left = grown(ask)
    assert not things and left < 2_000_000, (things, left)
