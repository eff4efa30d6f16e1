from __future__ import annotations

import pytest

from unseen.hierarchy.core import Hierarchy
from unseen.util.errors import UnseenError


@pytest.fixture
def load(tmp_path):
    """Write a file and load it as a user would."""

    def write_and_load(content: str | bytes, name: str = "pets.csv", spec: str = "{}") -> Hierarchy:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return Hierarchy.load(spec.format(path))

    return write_and_load


@pytest.fixture
def refusal(load, tmp_path):
    """What is said of a file that does not load, with the folder's name cut off."""

    def message(content: str | bytes, name: str = "pets.csv", spec: str = "{}") -> str:
        with pytest.raises(UnseenError) as caught:
            load(content, name, spec)
        return str(caught.value).replace(f"{tmp_path}/", "")

    return message
