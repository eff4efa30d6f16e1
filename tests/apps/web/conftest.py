"""The server on a small world of colours, for the API's tests; on real bundles in a real browser, for the page's."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from support import browser
from support.colours import model
from unseen.apps.web.app import create_app
from unseen.apps.web.service import Service


@pytest.fixture(scope="session")
def colour_model():
    return model()


@pytest.fixture
def service(colour_model, tmp_path):
    """Fresh for every test: what one adds, the next does not find."""
    service = Service(colour_model, "steep", save_folder=tmp_path / "saved")
    yield service
    service.close()


@pytest.fixture
def client(service):
    return TestClient(create_app(service), base_url="http://127.0.0.1:8000")


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    if not (browser.CHROMIUM and browser.DRIVER):
        pytest.skip("chromium and chromedriver are not installed: apt-get install chromium chromium-driver")
    with browser.chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    with browser.serving("--save-folder", tmp_path_factory.mktemp("saved")) as (address, _):
        yield address


@pytest.fixture
def page(driver, address):
    page = browser.Page(driver, address)
    page.size(*browser.DESK)
    page.colours("light")
    page.forget()
    page.open()
    page.complaints()
    yield page
    page.offline(False)
    assert page.complaints() == []
