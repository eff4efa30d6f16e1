"""The page of `unseen export --to web` in a real browser: it needs nothing of ours, and nothing leaves it."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from PIL import ExifTags, Image

from export.test_to_web import calibrated_model
from support import browser
from support.bundles import SEEN, TinyNetwork
from unseen.apps.web import sample_photos
from unseen.export import to_web
from unseen.model import Model
from unseen.networks.custom import from_module
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

CAT = next(path for path in sample_photos() if path.stem == "cat")
ANSWERED = "return document.querySelector('#card').getAttribute('aria-busy') === 'false'"
ROWS = """return [...document.querySelectorAll('.answer')].map((row) => [
    row.querySelector('.name').textContent, parseFloat(row.querySelector('.bar-fill').style.width) / 100,
    row.querySelector('.mark').textContent])"""
ASK = """
const [address, done] = arguments;
const inside = `fetch(${JSON.stringify(address)}).then(() => postMessage("reached"), () => postMessage("refused"));`;
const worker = new Worker(URL.createObjectURL(new Blob([inside], { type: "text/javascript" })), { type: "module" });
worker.onmessage = async ({ data }) => done([data, await fetch(address).then(() => "reached", () => "refused")]);
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def log_message(self, format, *arguments):
        self.asked.append(self.path)

    def end_headers(self):
        self.send_header("Access-Control-Allow-Origin", "*")  # what is refused, the page itself refuses
        super().end_headers()


@contextmanager
def plain_server(folder: Path) -> Iterator[str]:
    """As `python -m http.server` does it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class UpperPart(TinyNetwork):
    """Does not see the rest, so that it matters what is up."""

    def forward(self, x):
        return super().forward(x[:, :, : x.shape[2] // 3])


@pytest.fixture(scope="module")
def model() -> Model:
    bold = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)  # enough for a verdict
    return calibrated_model(from_module(UpperPart(len(SEEN)), SEEN, PhotoTransform(32)), exponents=bold)


@pytest.fixture(scope="module")
def folder(model, driver, tmp_path_factory) -> Path:
    pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")
    try:
        to_web.read_runtime()
    except UnseenError as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("exported") / "page"
    model.export("web", out)
    return out


@pytest.fixture
def page(driver, folder) -> Iterator[browser.Page]:
    with plain_server(folder) as address:
        page = browser.Page(driver, address)
        page.size(*browser.DESK)
        page.colours("light")
        page.complaints()
        page.open()
        yield page
        page.offline(False)
        assert page.complaints() == []


def test_it_names_a_photo_without_a_network(page, model):
    asked = len(Handler.asked)
    page.offline(True)
    page.find("#pick").send_keys(str(CAT))
    page.until(ANSWERED)
    expected = model.classify(CAT)
    assert len(Handler.asked) == asked
    told = f"A guess: {expected.verdict.text} ({100 * expected.verdict.probability:.0f} %)"
    assert page.text(".verdict h2") == told and told in page.text("#status")
    chances = {guess.title: (guess.probability, guess.training) for guess in expected.guesses}
    rows = page.run(ROWS)
    assert rows[0][0] == expected.guesses[0].title and len(rows) == len(chances)
    for title, chance, training in rows:
        assert chance == pytest.approx(chances[title][0], abs=0.02) and training == chances[title][1]
    assert expected.guesses[0].title in page.text("#status")
    page.settle()
    assert page.axe() == []


@pytest.mark.parametrize("kind", ["turned", "transparent"])
def test_photos_are_read_as_unseen_reads_them(page, model, tmp_path, kind):
    """Upright whatever the camera noted, and transparent parts on white."""
    photo, exif = Image.linear_gradient("L").convert("RGB"), Image.Exif()
    plain = {guess.title: guess.probability for guess in model.classify(photo).guesses}
    if kind == "turned":
        exif[ExifTags.Base.Orientation] = 6
    else:
        photo.putalpha(Image.linear_gradient("L"))
    photo.save(tmp_path / "photo.png", exif=exif)
    page.find("#pick").send_keys(str(tmp_path / "photo.png"))
    page.until(ANSWERED)
    expected = {guess.title: guess.probability for guess in model.classify(tmp_path / "photo.png").guesses}
    found = {title: chance for title, chance, _ in page.run(ROWS)}
    assert found == pytest.approx(expected, abs=0.01)
    assert plain != pytest.approx(expected, abs=0.02)  # so it would be seen


def test_no_other_host_can_be_reached(page, folder):
    """Not even by a worker that is started as the page starts its own."""
    page.driver.set_script_timeout(10)
    assert page.driver.execute_async_script(ASK, f"{page.address}/classes.json") == ["reached", "reached"]
    with plain_server(folder) as other:
        assert page.driver.execute_async_script(ASK, f"{other}/classes.json") == ["refused", "refused"]
    assert all("Content Security Policy" in complaint for complaint in page.complaints())


def test_a_file_that_is_no_picture_then_one_that_is(page, tmp_path):
    (tmp_path / "notes.jpg").write_text("no picture")
    page.find("#pick").send_keys(str(tmp_path / "notes.jpg"))
    page.until(ANSWERED)
    assert "not a picture that this browser can read" in page.text(".problem")
    page.find("#pick").send_keys(str(CAT))
    page.until("return document.querySelector('.verdict')")
    assert page.find("#photo").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(page, scheme):
    page.size(*browser.PHONE, phone=True)
    page.colours(scheme)
    assert page.find("label[for=shoot]").is_displayed() and page.axe() == []
    page.find("#pick").send_keys(str(CAT))
    page.until("return document.querySelector('.verdict')")
    page.settle()
    assert page.run("return document.documentElement.scrollWidth <= innerWidth") and page.axe() == []


def test_a_server_without_the_model(driver, folder, tmp_path):
    for path in folder.iterdir():
        if path.name != "model.onnx":
            (tmp_path / path.name).symlink_to(path)
    with plain_server(tmp_path) as address:
        page = browser.Page(driver, address)
        page.driver.get(address)
        assert "model.onnx is missing on the server (404)" in page.until(
            "return document.querySelector('#loading.problem')?.textContent"
        )
        page.find("#pick").send_keys(str(CAT))
        page.until(ANSWERED)
        assert "model.onnx is missing" in page.text("#answer .problem")
        page.complaints()
