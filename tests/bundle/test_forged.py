"""Bundles that are whole, with a checksum that fits, but hold what no bundle does: refused with a reason, or used."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unseen.util.errors import UnseenError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A bundle with vectors from a file beside it."""
    sys.path.insert(0, str(BENCHMARKS))
    from torture_jobs import write_inputs

    folder = tmp_path_factory.mktemp("forged") / "inputs"
    write_inputs(folder)
    yield folder / "base"
    sys.path.remove(str(BENCHMARKS))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the trial is for Linux and macOS")
def test_no_forged_bundle_is_more_than_an_error(base, tmp_path):
    from torture_readers import use_forged

    refused = 0
    for seed in range(300):
        try:
            use_forged(base, tmp_path / "forged", str(seed).encode())
        except UnseenError:
            refused += 1
    assert 50 < refused < 300
