"""The page in a real browser: photos in, a verdict out, the proof in the photo, reasons, the hierarchy."""

from __future__ import annotations

import re
import signal

from selenium.webdriver.common.keys import Keys

from support import browser
from unseen.apps.web import STATIC

DROP = """
const [name, text, kind] = arguments;
const file = text === null
  ? new File([await (await fetch(`/static/samples/${name}`)).blob()], name, { type: "image/jpeg" })
  : new File([text], name, { type: "text/plain" });
const carried = new DataTransfer();
carried.items.add(file);
const event = kind === "paste"
  ? new ClipboardEvent("paste", { clipboardData: carried, bubbles: true })
  : new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true });
document.body.dispatchEvent(event);
return true;
"""
PAINTED = """
const canvas = document.querySelector(arguments[0]);
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
const found = { orange: 0, blue: 0 };
for (let at = 0; at < data.length; at += 4)
  if (data[at + 3] > 60) found[data[at] > data[at + 2] ? "orange" : "blue"] += 1;
return found;
"""


def test_drop_a_photo_and_read_the_verdict(page):
    page.run(DROP, "cat.jpg", None, "dragenter")
    assert page.find("#drop-veil").is_displayed()
    page.run(DROP, "cat.jpg", None, "drop")
    page.until("return document.querySelector('.answer')")
    page.settle()
    assert not page.find("#drop-veil").is_displayed()
    assert page.text(".verdict h2").split()[0] in ("Sure:", "Likely:", "A")
    assert re.search("cat|mammal", page.text(".verdict h2"))  # as precise as the calibration dares
    steps = page.run("return [...document.querySelectorAll('.card .step')].map((e) => [e.innerText, e.title])")
    assert len(steps) >= 3 and all("%" in chance for _, chance in steps)
    names = page.names()
    assert names and len(names) == len(set(names)) and set(page.marks()) <= {"seen", "unseen", "guesswork"}
    assert "n02" not in page.text(".answers-side")  # ids on demand only
    status = page.run("return document.getElementById('status').textContent")
    assert status.startswith("cat.jpg: ") and names[0] in status  # told to a screen reader


def test_bars_are_probabilities(page):
    page.sample("raccoon")
    rows = page.run(
        "const wide = (row, part) => row.querySelector(part).getBoundingClientRect().width;"
        "return [...document.querySelectorAll('.card .answer')].map((row) => "
        "[wide(row, '.bar-fill') / wide(row, '.track'), row.querySelector('.score').dataset.percent])"
    )
    widths = [width for width, _ in rows]
    assert widths == sorted(widths, reverse=True) and sum(widths) < 1.02
    for width, percent in rows:
        if percent[0].isdigit():
            assert abs(width - int(percent.split()[0]) / 100) < 0.02


def test_what_it_does_not_know_it_says(page):
    page.find("#pick").send_keys(str(STATIC / "samples" / "rocket.jpg"))
    page.until("return document.querySelector('.verdict')")
    page.slide("#confidence", 6)
    page.until("return document.querySelector('.verdict-unknown h2')?.textContent === \"I don't know what this is.\"")
    assert page.text(".best").startswith("If I had to guess:")
    assert page.run("return location.search") == "?confidence=0.99"


def test_paste_a_photo(page):
    page.run(DROP, "coffee.jpg", None, "paste")
    page.until("return document.querySelector('.answer')")
    assert any(word in " ".join(page.names()) for word in ("espresso", "coffee", "cup"))


def test_many_photos_are_a_grid_and_a_removed_one_comes_back(page):
    def tiles():
        return page.run("return [...document.querySelectorAll('.tile')].map((t) => t.ariaLabel.split(':')[0])")

    page.find("#pick").send_keys("\n".join(str(STATIC / f"samples/{name}.jpg") for name in ("cat", "coffee", "rocket")))
    page.until("return document.querySelectorAll('.tile').length === 3")
    page.until("return ![...document.querySelectorAll('.tile')].some((tile) => tile.textContent === 'Looking …')")
    assert tiles() == ["rocket.jpg", "coffee.jpg", "cat.jpg"]
    assert page.find(".card").get_attribute("aria-label") == "rocket.jpg"
    page.click(".tile[aria-label^=coffee]")
    page.until("return document.querySelector('.card').ariaLabel === 'coffee.jpg'")
    page.click("[aria-label='Remove coffee.jpg']")
    assert tiles() == ["rocket.jpg", "cat.jpg"]
    page.click(".notice-action")
    assert tiles() == ["rocket.jpg", "coffee.jpg", "cat.jpg"]


def test_a_file_that_is_no_photo_is_told_clearly(page):
    page.run(DROP, "notes.jpg", "dear diary", "drop")
    page.until("return document.querySelector('.card .problem')")
    told = page.text(".card .problem")
    assert told.startswith("This file is not a picture") and "Pillow" not in told
    page.sample("cat")  # and the page goes on
    assert page.names()
    page.complaints()  # the browser logs the 422 itself


def test_candidates_down_to_a_branch_found_by_name_with_the_keyboard(page):
    page.sample("cat")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return [...document.querySelectorAll('.card .mark')].every((one) => one.dataset.mark !== 'seen')")
    page.find("#candidates-hops").send_keys(Keys.SPACE)
    page.until("return /things compete/.test(document.getElementById('count').textContent)")
    page.find("#candidates-branch").send_keys(Keys.SPACE)
    box = page.driver.switch_to.active_element
    assert box.get_attribute("id") == "branch"
    box.send_keys("wildcat")
    page.until("return document.querySelector('#branch-list [role=option] b')?.textContent === 'wildcat'")
    assert box.get_attribute("aria-expanded") == "true"
    box.send_keys(Keys.ARROW_DOWN)
    assert box.get_attribute("aria-activedescendant") == "branch-list-0"
    box.send_keys(Keys.ENTER)
    page.until("return parseInt(document.getElementById('count').textContent.replace(',', '')) < 100")  # wildcats
    page.settle()
    assert page.ids() and page.run("return new URLSearchParams(location.search).get('among')").startswith("branch:n0")
    for id in page.ids():
        path = page.run("return fetch(`/api/classes/${arguments[0]}`).then((a) => a.json())", id)["path"]
        assert "wildcat" in [step["name"] for step in path]


# -- the proof and the reasons ---------------------------------------------------------------------------------------


HEAT = ".photo-frame .heat"


def test_the_proof_is_in_front(page):
    """The heat of the verdict at once, of a guess below the pointer, and of the difference of two by a slider."""
    page.sample("coffee")
    page.until(PAINTED.replace("return found", "return found.orange > 500"), HEAT)
    first = page.run(PAINTED, HEAT)
    verdict = page.run("return document.querySelector('.verdict b').textContent")
    assert page.text(".heat-words") == f"The stronger the orange, the more that part speaks for {verdict}."
    page.hover(".answer:nth-child(3)")
    page.until(PAINTED.replace("return found", "return found.orange !== arguments[1]"), HEAT, first["orange"])
    page.hover(".brand")
    page.until(PAINTED.replace("return found", "return found.orange === arguments[1]"), HEAT, first["orange"])
    other = page.run("return document.querySelector('.chip-1').selectedOptions[0].textContent")
    page.slide(".heat-slider", 50)
    page.until(PAINTED.replace("return found", "return found.blue > 50"), HEAT)
    assert page.text(".heat-words") == f"Orange speaks for {verdict}, blue for {other}."
    page.slide(".heat-slider", 100)
    page.until(PAINTED.replace("return found", "return found.blue > found.orange"), HEAT)
    page.click(".photo-frame figcaption .part-button")  # off
    page.until(PAINTED.replace("return found", "return found.blue + found.orange === 0"), HEAT)
    page.complaints()  # the browser advises against reading pixels, which only this test does


def test_erase_a_patch_and_the_bars_move(page):
    page.sample("cat")
    width = "return document.querySelector('.answer .bar-fill').getBoundingClientRect().width"
    before, best = page.run(width), page.names()[0]
    page.click("[data-focus=erase]")
    page.drag(".photo-stage", (0.05, 0.1), (0.95, 0.95))
    page.until("return document.querySelector('.without')?.textContent.startsWith('Without the patch: ')")
    page.settle()
    assert page.names()[0] == best and page.run(width) < 0.8 * before  # the same rows, shorter bars
    assert len(page.all(".bar-tick")) == len(page.all(".answer"))
    page.click("[data-focus=restore]")
    page.until(f"{width} === arguments[0]", before)
    page.find("[data-focus=erase]").send_keys(Keys.ENTER)  # and by keyboard
    page.find("[data-focus=erase]").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    page.find("[data-focus=erase]").send_keys(Keys.ENTER)
    page.until("return document.querySelector('.without')?.textContent.startsWith('Without the patch: ')")


def test_a_model_without_a_heat_map_says_so(page):
    page.run(
        'const ask = window.fetch; const no = () => new Response(\'{"error": "no map"}\', { status: 400 });'
        "window.fetch = async (path, ...more) => (path === '/api/heatmap' ? no() : ask(path, ...more))"
    )
    page.sample("cat")
    assert page.until("return document.querySelector('.heat-words')?.textContent").startswith("This model cannot show")


def test_why_draws_the_way_to_what_it_was_trained_on(page):
    page.sample("rocket")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return document.body.textContent.includes('20,842 kinds of things compete')")
    page.settle()
    name, mark = page.names()[1], page.text(".answer:nth-child(2) .mark")
    page.all(".answer button")[1].send_keys(Keys.ENTER)
    page.until(  # at once, with a skeleton until it is there: nothing stale below the new row
        "return document.querySelector('.why h3')?.textContent === arguments[0]",
        f"How can it know {name}, which it was never shown?" if "never" in mark else f"How does it know {name}?",
    )
    page.until("return document.querySelector('.tree-drawing .self')")
    assert page.all(".answer button")[1].get_attribute("aria-expanded") == "true"
    assert len(page.all(".tree-drawing .dot-seen")) >= 2 and len(page.all(".tree-drawing .share-fill")) == 5
    shares = [float(text.text.rstrip(" %")) for text in page.all(".tree-drawing .share")]
    assert all(0 < share <= 100 for share in shares) and sum(shares) <= 101
    assert "supported" in page.text(".why .support")
    assert "per cent. The way" in page.run("return document.querySelector('.tree ul').textContent")
    asked = "return performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/explain')).length"
    before = page.run(asked)
    page.all(".answer button")[0].send_keys(Keys.ENTER)
    page.until("return !document.querySelector('.why h3').textContent.includes(arguments[0])", name)
    page.all(".answer button")[1].send_keys(Keys.ENTER)
    page.until("return document.querySelector('.why h3').textContent.includes(arguments[0])", name)
    page.until("return document.querySelector('.tree-drawing .self')")
    assert page.run(asked) == before  # known already


def test_ask_about_a_part(page):
    page.sample("camera")
    page.drag(".card .photo-stage", (0.55, 0.4), (0.95, 0.9))
    page.until("return document.querySelector('.card').ariaLabel.startsWith('camera.jpg, a part (')")
    page.settle()
    assert page.names() and len(page.all(".tile")) == 2
    size = page.run("const i = document.querySelector('.card .photo'); return [i.naturalWidth, i.naturalHeight]")
    assert 100 < size[0] < 300 and 150 < size[1] < 350  # of 480 x 480


# -- the other views -------------------------------------------------------------------------------------------------


def test_explore_begins_with_what_one_knows(page):
    page.click("[data-view=explore]")
    page.until("return document.querySelectorAll('.topic').length > 8")
    topics = page.run("return [...document.querySelectorAll('.topic')].map((e) => e.firstChild.textContent.trim())")
    assert {"animal", "food", "tool"} <= set(topics) and "entity" not in topics
    box = page.find("#explore-search")
    box.send_keys("giraf")
    page.until("return document.querySelector('#explore-search-list [role=option] b')?.textContent === 'giraffe'")
    box.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    page.until("return document.querySelector('.class-card h2')?.textContent === 'giraffe'")
    assert "tallest living quadruped" in page.text(".definition")
    assert page.text(".trail").splitlines()[0] == "Start" and "ruminant" in page.text(".trail")
    assert len(page.all(".near-list .near")) == 8
    page.click(".kin-row .kin-link")  # up
    page.until("return document.querySelector('.class-card h2')?.textContent === 'ruminant'")
    page.driver.back()
    page.until("return document.querySelector('.class-card h2')?.textContent === 'giraffe'")


def test_what_is_not_here_can_be_added_and_bad_addresses_do_no_harm(page):
    page.open("#explore/%E0%A4%A")  # no valid text
    page.until("return document.querySelector('.topic')")
    page.run("location.hash = '#explore/no-such-class'")
    page.until(
        "return document.querySelector('.explored .problem')?.textContent === 'There is no class at this address.'"
    )
    page.complaints()  # the browser logs the 404 itself
    page.find("#explore-search").send_keys("flurbelwurz")
    page.until("return document.querySelector('#explore-search-list b')?.textContent.includes('is not here: add it')")
    page.find("#explore-search").send_keys(Keys.ENTER)
    page.until("return location.hash === '#grow' && document.activeElement.id === 'grow-name'")
    assert page.find("#grow-name").get_attribute("value") == "flurbelwurz"


def test_the_server_starts_says_where_and_ends_on_ctrl_c():
    with browser.serving() as (address, process):
        assert address.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        out, said = process.communicate()
        assert out == "" and "The server has stopped." in said and "Traceback" not in said
