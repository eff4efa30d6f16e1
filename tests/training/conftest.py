from __future__ import annotations

from pathlib import Path

import pytest

from support.tiny_network import make_photos


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return make_photos(tmp_path_factory.mktemp("photos") / "seen")
