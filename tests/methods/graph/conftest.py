from __future__ import annotations

import pytest

from support.graphs import one_thread  # noqa: F401 (a fixture)


@pytest.fixture(autouse=True)
def _quick(one_thread):  # noqa: F811
    pass
