"""The server on a small world of colours, for the API's tests."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the web page needs the extra: pip install 'unseen[web]'")

from colours import models
from fastapi.testclient import TestClient

from unseen.web.app import create_app
from unseen.web.service import Service


@pytest.fixture(scope="session")
def colour_models():
    return models()


@pytest.fixture
def service(colour_models, tmp_path):
    """Fresh for every test: what one adds, the next does not find."""
    service = Service(dict(colour_models), save_folder=tmp_path / "saved")
    yield service
    service.close()


@pytest.fixture
def client(service):
    return TestClient(create_app(service), base_url="http://127.0.0.1:8000")
