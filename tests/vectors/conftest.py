from __future__ import annotations

from pathlib import Path

import pytest

from support.words import VOCABULARY


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("UNSEEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "toy.txt"
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in VOCABULARY.items()))
    return path
