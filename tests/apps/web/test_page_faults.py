"""Small things that must not go wrong: what is said twice, what is gone, where the focus is, what can be undone."""

from __future__ import annotations

import signal
import socket

import pytest
from PIL import Image
from selenium.webdriver.common.keys import Keys

from support import browser
from unseen.apps.web import STATIC

STATE = "return import('/static/state.js').then(({ state }) => %s)"
ADD = (
    "return import('/static/photos.js').then(({ addFiles }) => addFiles([new File([arguments[0]], arguments[1],"
    " { type: arguments[2] })])).then(() => true)"
)


def focused(page) -> str:
    return page.run("const a = document.activeElement; return a.id || a.className || a.tagName")


def sure_of(page) -> dict[str, str]:
    """What the page says of each name, wherever it says it: the verdict, the path, the list."""
    return page.run(
        "const said = {}; const add = (name, chance) => (said[name] = [...(said[name] || []), chance]);"
        "const say = document.querySelector('.verdict b'); const of = document.querySelector('.verdict h2 .soft');"
        "if (of) add(say.textContent, of.textContent.replace(/[()]/g, '').trim());"
        "for (const step of document.querySelectorAll('.card .step'))"
        " add(step.querySelector('a').textContent, step.title);"
        "for (const row of document.querySelectorAll('.card .answer'))"
        " add(row.querySelector('.name').textContent, row.querySelector('.score').dataset.percent);"
        "return said"
    )


@pytest.mark.parametrize("sample", ["temple", "cat", "coffee", "rocket"])
def test_a_name_has_one_probability(page, sample):
    page.sample(sample)
    for name, chances in sure_of(page).items():
        assert len(set(chances)) == 1, (name, chances)


def test_one_word_for_how_well_a_class_is_supported(page):
    page.sample("temple")
    page.until("return document.querySelector('.why .support')")
    guess = page.run(STATE % "state.current.answer.guesses[0]")
    sentence = page.text(".why .support")
    assert guess["support"] and sentence.lower().startswith(guess["support"])
    page.run("location.hash = `#explore/${arguments[0]}`", guess["id"])
    page.until("return document.querySelector('.class-card .mark')")
    assert guess["support"] in page.text(".class-card .mark") and page.text(".class-card .support") == sentence


def test_a_list_of_names_is_all_there_is_and_answers_follow(page):
    page.sample("temple")
    page.find("#candidates-list").send_keys(Keys.SPACE)
    page.find("#list").send_keys("temple\ncat, espresso")
    page.until("return document.getElementById('list-words').textContent.trim() === '3 names compete'")
    page.settle()
    assert set(page.names()) <= {"temple", "cat", "espresso", "domestic cat"} and page.names()[0] == "temple"
    assert page.run("return new URLSearchParams(location.search).get('list')") == "temple,cat,espresso"
    page.find("#list").send_keys("\nzorgblatt")
    page.until("return document.getElementById('list-words').textContent.trim() === '4 names compete'", seconds=90)
    assert "new, taken for a kind of" in page.run("return document.querySelector('.meant').textContent")
    page.find("#list").send_keys(" (building)")
    page.until("return document.querySelector('#list-words .problem')?.textContent.includes('names 4 classes')")
    page.driver.refresh()  # a link carries the list
    page.until("return document.body.dataset.ready && document.querySelector('.answer')")
    assert "zorgblatt (building)" in page.find("#list").get_attribute("value")
    page.settle()
    page.complaints()  # the browser logs the 400 itself


def test_back_undoes_what_may_be_an_answer(page):
    page.sample("cat")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return location.search === '?among=unseen'")
    page.until("return document.getElementById('count').textContent.startsWith('20,842')")
    page.driver.back()
    page.until("return document.getElementById('candidates-any').checked && location.search === ''")
    page.until("return !document.getElementById('count').textContent.startsWith('20,842')")
    page.driver.forward()
    page.until("return document.getElementById('candidates-unseen').checked")


def test_forget_all_asks_and_can_be_undone(page):
    page.sample("cat")
    page.sample("coffee")
    page.click("#forget")
    page.until("return document.activeElement.id === 'forget-really'")
    page.click(".asking .chip-button:last-child")  # keep
    page.until("return document.activeElement.id === 'forget'")
    page.click("#forget")
    page.click("#forget-really")
    page.until("return !document.querySelector('.card')")
    page.click(".notice-action")
    page.until("return document.querySelectorAll('.tile').length === 2")
    page.driver.refresh()
    page.until("return document.body.dataset.ready && document.querySelectorAll('.tile').length === 2")


def test_tiles_stay_when_others_change_and_next_keeps_its_place(page):
    page.find("#pick").send_keys("\n".join(str(STATIC / f"samples/{name}.jpg") for name in ("cat", "coffee", "rocket")))
    page.until("return document.querySelectorAll('.tile').length === 3")
    page.settle()
    page.run("window.scrollTo(0, 400); for (const tile of document.querySelectorAll('.tile')) tile.old = true")
    top = page.run("return scrollY")
    page.run("document.getElementById('next').click()")
    page.until("return document.querySelector('.card').ariaLabel === 'coffee.jpg'")
    page.until("return document.activeElement.id === 'next'")
    page.settle()
    page.find("body").send_keys(Keys.ARROW_LEFT)
    page.until("return document.querySelector('.card').ariaLabel === 'rocket.jpg'")
    assert page.run("return [...document.querySelectorAll('.tile')].every((tile) => tile.old)")
    assert abs(page.run("return scrollY") - top) < 200


def test_the_focus_stays_near_what_was_done(page):
    page.sample("cat")
    page.sample("coffee")
    page.click(".card .remove")
    page.until("return document.activeElement.classList.contains('remove')")
    page.click(".card .remove")
    page.until("return document.activeElement.id === 'pick'")


def test_a_drawing_is_refused_before_it_is_shown(page):
    page.run(ADD, "<svg xmlns='http://www.w3.org/2000/svg'/>", "drawing.svg", "image/svg+xml")
    page.until("return document.querySelector('.card .problem')?.textContent.includes('drawing (SVG)')")
    assert not page.all(".card img.photo") and page.all(".card .photo-hidden")
    page.sample("cat")
    assert page.all(".tile-failed .tile-icon") and not page.all(".tile-failed img")


def test_a_tiny_photo_is_shown_large(page, tmp_path):
    with Image.open(STATIC / "samples" / "cat.jpg") as photo:
        photo.resize((32, 24)).save(tmp_path / "tiny.png")
    page.find("#pick").send_keys(str(tmp_path / "tiny.png"))
    page.until("return document.querySelector('.photo.tiny')?.clientWidth > 200")
    page.settle()


def test_exists_is_said_of_the_name_that_stands_there(page):
    page.click("[data-view=grow]")
    page.find("#grow-name").send_keys("samosa")
    page.until("return document.querySelector('.exists')")
    page.find("#grow-name").send_keys("x")
    page.until("return !document.querySelector('.exists')")


def test_where_photos_go_is_said_truly(page):
    assert "stay on this computer" in page.text(".drop-note")
    page.run(
        "return import('/static/state.js').then(({ state, emit }) => { state.local = false; emit('x'); return 1; })"
    )
    page.until("return document.querySelector('.drop-note').textContent.includes('are sent to 127.0.0.1')")


def test_the_first_answer_and_the_size_of_the_page(page):
    page.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    page.open()
    page.until("return document.querySelector('.story-map canvas[data-ready]')")
    sizes = page.run("return performance.getEntries().map((e) => e.transferSize || 0)")
    assert 100_000 < sum(sizes) < 450_000
    assert page.run("return performance.getEntriesByType('resource').length") < 45


def test_what_is_added_is_shown_before_and_after_also_where_it_folds(page):
    page.sample("cat")
    parent = page.run(STATE % "state.current.answer.guesses[0]")
    page.run(
        "return Promise.all(['api', 'state', 'photos'].map((name) => import(`/static/${name}.js`))).then("
        "async ([api, { state, loadBundle }, { rerank }]) => {"
        " for (const photo of state.photos) photo.before = photo.answer.guesses.slice(0, 3);"
        " await api.add({ name: 'marmalade puss', parents: [arguments[0]] });"
        " await loadBundle(); await rerank(); return true; })",
        parent["id"],
    )
    watched = page.run(STATE % "state.current.watched")
    assert watched[0]["within"] == parent["id"]
    page.click("[data-view=grow]")
    page.until("return document.querySelector('.placed, #places-title + p')")
    if watched[0]["place"] <= 5:
        assert "with marmalade puss" in page.text(".placed .folded")
    page.click("[aria-label='Undo: remove marmalade puss']")
    page.until("return !document.querySelector('.added-name')")


# -- the map -----------------------------------------------------------------------------------------------------------

PIXELS = """
const canvas = document.querySelector(arguments[0]);
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
const seen = new Set();
for (let at = 0; at < data.length; at += 4) if (data[at + 3]) seen.add(`${data[at]} ${data[at + 1]} ${data[at + 2]}`);
return seen.size;
"""


def test_the_map_zooms_names_places_and_opens_them(page):
    page.open("#explore")
    page.until("return document.querySelector('.map canvas[data-ready]')?.dataset.zoom")
    assert page.run(PIXELS, ".map canvas") > 20
    canvas = page.find(".map canvas")
    canvas.send_keys("+", "+")
    page.until("return document.querySelector('.map canvas').dataset.zoom > 2")
    canvas.send_keys(Keys.ENTER)  # what is in the middle
    page.until("return /^#explore.n/.test(location.hash) && document.querySelector('.class-card h2')")
    page.run("location.hash = '#explore/n02439033'")
    page.until("return document.querySelector('.class-card h2')?.textContent === 'giraffe'")
    page.until("return document.querySelector('.map canvas').dataset.cell > 30")  # brought into view
    assert "spotted" in page.text(".class-card .looks, .class-card .definition")
    page.complaints()  # the browser advises against reading pixels, which only this test does


def test_the_map_moves_smoothly(page):
    """Each frame is drawn within a sixtieth of a second, on a phone's screen; the best of a few: machines are busy."""
    page.size(*browser.PHONE, phone=True)
    page.open("#explore")
    page.until("return document.querySelector('.map canvas[data-ready]')?.dataset.zoom")
    frames = page.run(
        "const canvas = document.querySelector('.map canvas'); const took = {};"
        "for (const key of [...'+++++-----'.split(''), ...'+++++-----'.split('')]) {"
        " for (let n = 0; n < 3; n += 1) {"
        "  canvas.dispatchEvent(new KeyboardEvent('keydown', { key: n ? 'ArrowLeft' : key, bubbles: true }));"
        "  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
        "  const { zoom, took: ms } = canvas.dataset; took[zoom] = Math.min(took[zoom] ?? 1e9, Number(ms)); } }"
        "return took"
    )
    assert len(frames) >= 5 and max(frames.values()) < 1000 / 60, frames


# -- the server was restarted ----------------------------------------------------------------------------------------


def test_after_a_restart_the_page_shows_what_is_there(driver, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ("--port", port, "--save-folder", tmp_path)
    with browser.serving(*options) as (address, process):
        page = browser.Page(driver, address)
        page.forget()
        page.open()
        page.sample("cat")
        page.run(
            "return Promise.all(['api', 'state'].map((name) => import(`/static/${name}.js`))).then("
            "async ([api, { state, loadBundle }]) => {"
            " await api.add({ name: 'gone cat', parents: ['n02123045'] });"
            " await api.teach({ token: state.photos[0].token, id: 'n02123159' });"
            " await loadBundle(); return true; })"
        )
        page.click("[data-view=grow]")
        page.until("return document.querySelectorAll('.added-name').length === 2")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
    with browser.serving(*options):
        page.click("[aria-label='Undo: remove gone cat']")  # before the page has heard of it
        page.until("return document.querySelectorAll('.added-name').length === 0")
        assert "is not there any more" in page.text("#notice")
        page.click("[data-view=recognise]")
        page.until("return document.querySelector('.card .answer')")
    page.complaints()  # the browser logs what failed itself
