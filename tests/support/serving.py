"""A server in a thread of this process, and what bundles from elsewhere may hold."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from unseen.apps.web.server import ImpatientProtocol, bind
from unseen.hierarchy.core import Hierarchy
from unseen.model import Model


@contextmanager
def running(app, **options) -> Iterator[tuple[str, int]]:
    """The host and port of the application at work."""
    bound = bind("127.0.0.1", 0)
    config = {"http": ImpatientProtocol, "log_level": "warning", "access_log": False}
    server = uvicorn.Server(uvicorn.Config(app, **config, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
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
