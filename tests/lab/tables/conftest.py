from __future__ import annotations

import pytest

from support.tables import LISTS, write_level
from unseen_lab.tables.levels import Level


@pytest.fixture(scope="session")
def level(tmp_path_factory) -> Level:
    return write_level(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def small_lists():
    """Lists of these classes instead of the authors'."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unseen_lab.data.authors.paper_list", lambda name: LISTS[name])
        yield
