from __future__ import annotations

import pytest

from support.tiny_network import build, make_bundle
from unseen.bench import serve
from unseen.errors import UnseenError


@pytest.mark.slow
def test_a_server_that_does_not_start_is_told(tmp_path):
    with pytest.raises(UnseenError, match="did not start"):
        serve.run(bundle=tmp_path / "nothing")


@pytest.mark.slow
def test_a_server_of_its_own_is_asked_and_stopped(tmp_path):
    make_bundle(build()).save(tmp_path / "bundle")
    result = serve.run(single=2, parallel=2, requests=4, bundle=tmp_path / "bundle", trust_code=True)
    assert result["classes"] == 12 and result["requests"] == 4 and result["errors"] == 0
    assert 0 < result["single_ms"] <= result["single_p95_ms"]
    assert 1 <= result["batch_mean"] <= 2
    assert all(result[key] > 0 for key in ("phone_photo_ms", "parallel_s", "memory_before_mb", "memory_after_mb"))
