"""A server in a thread of this process, and what bundles from elsewhere may hold."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from unseen.classifier import ZeroShotClassifier
from unseen.taxonomy import Taxonomy
from unseen.web import connections
from unseen.web.server import bind


@contextmanager
def running(app, **options) -> Iterator[tuple[str, int]]:
    """The host and port of the application at work."""
    bound = bind("127.0.0.1", 0)
    config = {"http": connections.ImpatientProtocol, "log_level": "warning", "access_log": False}
    server = uvicorn.Server(uvicorn.Config(app, **config, **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield bound.getsockname()[:2]
    server.should_exit = True
    thread.join(10)
    bound.close()


def renamed(model: ZeroShotClassifier, id: str, name: str) -> ZeroShotClassifier:
    """The same with another name for a class, which nothing checks in a bundle."""
    taxonomy = model.bundle.taxonomy
    names = [(name,) if other == id else taxonomy.lemmas[row] for row, other in enumerate(taxonomy.ids)]
    other = Taxonomy(taxonomy.ids, names, [taxonomy.parents(id) for id in taxonomy.ids])
    return ZeroShotClassifier(dataclasses.replace(model.bundle, taxonomy=other), model.backbone)
