"""The page in a real browser: photos in, answers out, trade-off, reasons, comparison, growth, the hierarchy."""

from __future__ import annotations

import signal

from selenium.webdriver.common.keys import Keys

from support import browser
from unseen.web.samples import SAMPLES

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


def test_drop_a_photo_and_read_the_label(page):
    page.run(DROP, "cat.jpg", None, "dragenter")
    assert page.find("#drop-veil").is_displayed()
    page.run(DROP, "cat.jpg", None, "drop")
    page.until("return document.querySelector('.answer')")
    page.settle()
    assert not page.find("#drop-veil").is_displayed()
    assert len(page.names()) == 5 and any("cat" in name or name == "tabby" for name in page.names()[:3])
    assert set(page.marks()) <= {"seen", "unseen", "guesswork"}
    assert page.text(".answer code").startswith("n0") and float(page.text(".answer .score"))
    widths = page.run("return [...document.querySelectorAll('.answer .bar-fill')].map((bar) => bar.offsetWidth)")
    assert widths == sorted(widths, reverse=True) and widths[-1] > 0
    status = page.run("return document.getElementById('status').textContent")
    assert status.startswith("cat.jpg: ") and page.names()[0] in status  # told to a screen reader


def test_paste_a_photo(page):
    page.run(DROP, "coffee.jpg", None, "paste")
    page.until("return document.querySelector('.answer')")
    assert any(word in " ".join(page.names()) for word in ("espresso", "coffee", "cup"))


def test_pick_several_photos_and_remove_one(page):
    page.find("#pick").send_keys("\n".join(str(SAMPLES / f"{name}.jpg") for name in ("cat", "coffee", "rocket")))
    page.until("return document.querySelectorAll('.card').length === 3")
    page.settle()
    assert [card.get_attribute("aria-label") for card in page.all(".card")] == ["rocket.jpg", "coffee.jpg", "cat.jpg"]
    assert len(page.all(".answer")) == 15
    page.click("[aria-label='Remove coffee.jpg']")
    assert [card.get_attribute("aria-label") for card in page.all(".card")] == ["rocket.jpg", "cat.jpg"]


def test_a_file_that_is_no_photo_is_told_clearly(page):
    page.run(DROP, "notes.jpg", "dear diary", "drop")
    page.until("return document.querySelector('.card .problem')")
    assert page.text(".card .problem") == "This file is not a picture in any format that Pillow reads."
    page.sample("cat")  # and the page goes on
    assert len(page.names()) == 5
    page.complaints()  # the browser logs the 422 itself


def test_the_slider_changes_the_order_at_once(page):
    page.sample("cat")
    before = page.names()
    slider = page.find("#balance")
    every = "return [...document.querySelectorAll('.answer .mark')].every((one) => (one.textContent === 'seen') === %s)"
    slider.send_keys(Keys.HOME)
    page.until(every % "true")
    seen_first = page.ids()
    slider.send_keys(Keys.END)
    page.until(every % "false")
    page.settle()
    assert len(page.ids()) == 5 and not set(page.ids()) & set(seen_first)
    assert slider.get_attribute("aria-valuetext") == "100 per cent towards unseen classes"
    slider.send_keys(*[Keys.ARROW_LEFT] * 3)
    assert slider.get_attribute("aria-valuetext") == "97 per cent towards unseen classes"
    page.click(".reset")
    page.until("return document.getElementById('balance-value').textContent === 'as it is'")
    names = "[...document.querySelectorAll('.card .answer .name')].map((one) => one.textContent)"
    page.until(f"return JSON.stringify({names}) === JSON.stringify(arguments[0])", before)


def test_candidates_down_to_a_branch_found_by_name_with_the_keyboard(page):
    page.sample("cat")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return [...document.querySelectorAll('.answer .mark')].every((one) => one.textContent !== 'seen')")
    assert not page.find("#balance").is_enabled()  # nothing competes
    page.find("#candidates-hops").send_keys(Keys.SPACE)
    page.until("return /classes compete/.test(document.getElementById('count').textContent)")
    page.find("#candidates-branch").send_keys(Keys.SPACE)
    box = page.driver.switch_to.active_element
    assert box.get_attribute("id") == "branch"
    box.send_keys("wildcat")
    page.until("return document.querySelector('#branch-list [role=option] b')?.textContent === 'wildcat'")
    assert box.get_attribute("aria-expanded") == "true"
    box.send_keys(Keys.ARROW_DOWN)
    assert box.get_attribute("aria-activedescendant") == "branch-list-0"
    box.send_keys(Keys.ENTER)
    page.until("return !document.getElementById('count').textContent.startsWith('21,')")
    page.settle()
    assert len(page.ids()) == 5
    for id in page.ids():
        path = page.run("return fetch(`/api/classes/${arguments[0]}`).then((a) => a.json())", id)["path"]
        assert "wildcat" in [step["name"] for step in path]


def test_why_draws_the_way_to_seen_classes(page):
    page.sample("rocket")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return document.body.textContent.includes('20,842 classes compete')")
    page.settle()
    second = page.all(".answer button")[1]
    name = page.names()[1]
    second.send_keys(Keys.ENTER)
    page.until("return document.querySelector('.why h3')?.textContent === `Why ${arguments[0]}?`", name)
    assert page.all(".answer button")[1].get_attribute("aria-expanded") == "true"
    assert page.text(".tree-drawing .self") == name
    assert len(page.all(".tree-drawing .dot-seen")) >= 2 and len(page.all(".tree-drawing .share-fill")) == 5
    shares = [float(text.text.rstrip(" %")) for text in page.all(".tree-drawing .share")]
    assert all(0 < share <= 100 for share in shares) and sum(shares) <= 101
    assert "%" in page.text(".why .trust")
    assert "per cent. The way" in page.run("return document.querySelector('.tree ul').textContent")
    page.all(".answer button")[1].send_keys(Keys.ENTER)
    page.until("return document.querySelector('.why').hidden")


def test_compare_two_bundles_and_the_network_alone(page, bundles):
    page.sample("coffee")
    page.sample("cat")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.click("[data-view=compare]")
    page.until("return document.querySelectorAll('.column .answer').length === 15")
    columns = page.run("return [...document.querySelectorAll('.column')].map((one) => one.dataset.bundle)")
    assert columns == ["network", "default", "conse"]
    assert set(page.marks("[data-bundle=network]")) == {"seen"}
    for name in columns[1:]:
        assert "seen" not in page.marks(f"[data-bundle='{name}']")
    before = page.names("[data-bundle=network]")
    page.click("[aria-label='Compare coffee.jpg']")
    page.until("return document.querySelector('[data-bundle=network] .name').textContent !== arguments[0]", before[0])


def test_choose_the_bundle_that_answers(page):
    page.sample("cat")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return document.body.textContent.includes('20,842 classes compete')")
    before = page.text(".answer .score")
    page.find("#bundle").send_keys("conse")
    page.until("return document.querySelector('.answer .score').textContent !== arguments[0]", before)


def grow(page, name: str, parent: str) -> None:
    page.click("[data-view=grow]")
    page.find("#grow-name").send_keys(name)
    page.find("#grow-parents").send_keys(parent)
    page.until(
        "return document.querySelector('#grow-parents-list [role=option] b')?.textContent === arguments[0]", parent
    )
    page.find("#grow-parents").send_keys(Keys.ENTER)
    assert parent in page.text(".chip")
    page.find("#grow-definition").send_keys("a friendly striped cat")
    page.click("#grow-form button[type=submit]")
    added = "return [...document.querySelectorAll('.added-name a')].some((a) => a.textContent === arguments[0])"
    page.until(added, name, seconds=90)  # the first time the encoder of definitions is loaded


def test_add_a_class_see_it_answer_take_it_out_again(page):
    page.sample("cat")
    grow(page, "stripy moggy", "tabby")
    assert "stripy moggy is number" in page.until("return document.querySelector('.placed')?.textContent")
    page.click("[data-view=recognise]")
    page.find("#candidates-branch").send_keys(Keys.SPACE)
    page.find("#branch").send_keys("tabby")
    page.until("return document.querySelector('#branch-list [role=option] b')?.textContent === 'tabby'")
    page.find("#branch").send_keys(Keys.ENTER)
    page.until("return document.getElementById('count').textContent.startsWith('2 ')")
    page.settle()
    assert sorted(page.names()) == ["stripy moggy", "tabby"]

    page.click("[data-view=grow]")
    page.find("#save-name").send_keys("My Cats")
    page.click("#save-form button")
    page.until("return document.querySelector('.told').textContent.includes('unseen serve')", seconds=40)
    assert "/my-cats" in page.text(".told")
    page.click("[aria-label='Remove stripy moggy']")
    page.until("return document.querySelectorAll('.added-name').length === 0")
    page.click("[data-view=recognise]")
    page.until("return document.getElementById('count').textContent.startsWith('1 ')")
    assert page.names() == ["tabby"]


def test_a_class_named_script_shows_as_text(page):
    name = "<script>document.title='run'</script><img src=x onerror=alert(1)>"
    page.sample("cat")
    grow(page, name, "tabby")
    page.click(".added-name a")  # to its place in the hierarchy
    page.until("return document.querySelector('.class-card h2')?.textContent === arguments[0]", name)
    page.until("return document.querySelector('.trail')?.textContent.includes(arguments[0])", name)
    page.click("[data-view=recognise]")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.click("[data-view=grow]")
    page.until("return document.title === 'Grow · unseen'")
    assert not page.all("main script, main img[src=x]")
    page.click(f'[aria-label="Remove {name}"]')
    page.until("return document.querySelectorAll('.added-name').length === 0")


def test_search_the_tree_and_walk_it(page):
    page.click("[data-view=explore]")
    page.until("return document.querySelector('.class-card h2')?.textContent === 'entity'")
    assert page.text(".class-card .mark") == "link"
    box = page.find("#explore-search")
    box.send_keys("giraf")
    page.until("return document.querySelector('#explore-search-list [role=option] b')?.textContent === 'giraffe'")
    box.send_keys(Keys.ARROW_DOWN, Keys.ENTER)
    page.until("return document.querySelector('.class-card h2')?.textContent === 'giraffe'")
    assert "tallest living quadruped" in page.text(".definition")
    assert page.text(".trail").splitlines()[0] == "entity" and "ruminant" in page.text(".trail")
    assert len(page.all(".near-list .near")) == 8
    page.click(".kin-row .kin-link")  # up
    page.until("return document.querySelector('.class-card h2')?.textContent === 'ruminant'")
    kinds = page.run("return [...document.querySelectorAll('[aria-labelledby=below-title] .kin-link')].length")
    assert kinds >= 5
    page.driver.back()
    page.until("return document.querySelector('.class-card h2')?.textContent === 'giraffe'")


def test_a_restarted_server_is_noticed_and_the_photo_sent_again(page):
    page.sample("cat")
    before = page.names()
    page.run(
        "return import('/static/state.js').then(({ state }) => { state.photos[0].token = 'forgotten'; return true; })"
    )
    page.find("#candidates-seen").send_keys(Keys.SPACE)
    page.until("return document.getElementById('count').textContent.startsWith('1,000 ')")
    page.settle()
    assert len(page.names()) == 5 and set(page.marks()) == {"seen"}, before
    page.complaints()  # the browser logs the 404 itself


def test_the_server_starts_says_where_and_ends_on_ctrl_c(bundles):
    with browser.serving(bundles[1]) as (address, process):
        assert address.startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        out, said = process.communicate()
        assert out == "" and "The server has stopped." in said and "Traceback" not in said
