"""Names in a bundle from elsewhere, on the page: text, whatever they hold, and nothing hidden in it."""

from __future__ import annotations

import pytest

from support import browser
from support.serving import renamed, running
from unseen.web.app import create_app
from unseen.web.service import Service

NAME = "<img src=x onerror='window.run = 1'>moss\u202egpj\x9b"
SHOWN = "<img src=x onerror='window.run = 1'>moss\\u202egpj\\u009b"


@pytest.fixture
def page(driver, colour_models, tmp_path):
    service = Service({"steep": renamed(colour_models["steep"], "moss", NAME)}, save_folder=tmp_path)
    with running(create_app(service)) as (host, port):
        yield browser.Page(driver, f"http://{host}:{port}")
    service.close()


@pytest.mark.slow
def test_a_name_is_shown_as_text_with_its_hidden_characters_escaped(page):
    page.open("#explore/moss")
    page.until("return document.body.innerText.includes(arguments[0])", SHOWN)
    page.find("#explore-search").send_keys("moss")
    page.until("return document.querySelector('#explore-search-list [role=option]')?.textContent.includes('u202e')")
    page.open("#explore/plant")
    page.until("return document.body.innerText.includes(arguments[0])", SHOWN)
    everything = page.run("return document.documentElement.outerHTML")
    assert "\u202e" not in everything and "\x9b" not in everything
    assert page.run("return window.run") is None and not page.all("img[src=x]")
