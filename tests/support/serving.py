"""A server in a thread of this process, and what bundles from elsewhere may hold."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from unseen.apps.web.server import Server, bind
from unseen.hierarchy.core import Hierarchy
from unseen.model import Model


@contextmanager
def running(app) -> Iterator[tuple[str, int]]:
    """The host and port of the application at work."""
    bound, started = bind("127.0.0.1", 0), threading.Event()
    server = Server(app, started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    assert started.wait(30)
    yield bound.getsockname()[:2]
    server.should_exit = True
    thread.join(10)
    bound.close()


def renamed(model: Model, id: str, name: str) -> Model:
    """The same with another name for a class, which nothing checks in a bundle."""
    hierarchy = model.bundle.hierarchy
    names = [(name,) if other == id else hierarchy.lemmas[row] for row, other in enumerate(hierarchy.ids)]
    other = Hierarchy(hierarchy.ids, names, [hierarchy.parents(id) for id in hierarchy.ids])
    return Model(dataclasses.replace(model.bundle, hierarchy=other), model.network)
