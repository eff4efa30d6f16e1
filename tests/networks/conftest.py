from __future__ import annotations

from pathlib import Path

import pytest

from support import tiny_network
from support.stores import picture


@pytest.fixture
def folder(tmp_path) -> Path:
    """Classes of 1, 9, 0 and 5 photos, one file of which is no photo."""
    images = tmp_path / "images"
    for place, (class_id, count) in enumerate((("one", 1), ("nine", 9), ("none", 0), ("five", 5))):
        (images / class_id).mkdir(parents=True)
        for number in range(count):
            picture(images / class_id / f"{number}.png", 10 * place + number)
    (images / "five" / "2.png").write_text("no photo")
    return images


@pytest.fixture
def network():
    return tiny_network.build()
