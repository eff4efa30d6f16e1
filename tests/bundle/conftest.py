from __future__ import annotations

import shutil

import pytest

from support.bundles import small_bundle
from unseen.bundle import Bundle


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    return small_bundle("kin")


@pytest.fixture(scope="session")
def kept(bundle, tmp_path_factory):
    """A saved bundle that no test may change."""
    return bundle.save(tmp_path_factory.mktemp("kept") / "bundle")


@pytest.fixture
def saved(kept, tmp_path):
    return shutil.copy(kept, tmp_path / "bundle")
