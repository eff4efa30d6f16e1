"""When things fail or last: the server gone and back, a reload, a slow network; and what a session leaves."""

from __future__ import annotations

import csv
import io
import re

from selenium.webdriver.common.keys import Keys

LARGE = """
const canvas = Object.assign(document.createElement("canvas"), { width: 2400, height: 1800 });
const pen = canvas.getContext("2d");
const pixels = pen.createImageData(2400, 1800);
for (let at = 0; at < pixels.data.length; at += 1) pixels.data[at] = at % 4 === 3 ? 255 : 256 * Math.random();
pen.putImageData(pixels, 0, 0);
const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
const { addFiles } = await import("/static/photos.js");
const { state } = await import("/static/state.js");
await addFiles([new File([blob], "large.png")]);
return [blob.size, state.photos[0].file.size, state.photos[0].state];
"""


def test_the_server_is_gone_and_back(page):
    page.sample("cat")
    before = page.names()
    page.offline(True)
    page.find("#candidates-seen").send_keys(Keys.SPACE)
    page.until("return document.getElementById('gone')")
    assert "does not answer" in page.text("#gone")
    page.until("return document.getElementById('candidates-any').checked")  # the answers are still those for this
    assert page.names() == before and page.run("return location.search") == ""
    page.run("import('/static/photos.js').then(({ addFiles }) => addFiles([new File(['x'], 'late.jpg')]))")
    page.until("return document.querySelector('.card .problem')?.textContent.includes('does not answer')")
    page.offline(False)
    page.click("#gone button")  # or wait: it asks by itself
    page.until("return !document.getElementById('gone')")
    page.until("return document.querySelector('.card .problem')?.textContent.startsWith('This file')")  # sent again
    page.complaints()  # the browser logs what failed itself


def test_a_restarted_server_is_noticed_and_the_photo_sent_again(page):
    page.sample("cat")
    page.run(
        "return import('/static/state.js').then(({ state }) => { state.photos[0].token = 'forgotten'; return true; })"
    )
    page.find("#candidates-seen").send_keys(Keys.SPACE)
    page.until("return document.getElementById('count').textContent.startsWith('1,000 ')")
    page.settle()
    assert set(page.marks()) == {"seen"}
    page.complaints()  # the browser logs the 404 itself


def test_photos_answers_and_settings_survive_a_reload(page):
    page.sample("rocket")
    page.find("#candidates-unseen").send_keys(Keys.SPACE)
    page.until("return location.search === '?among=unseen'")
    page.until("return document.body.textContent.includes('20,842 kinds of things compete')")
    page.settle()
    page.click("[data-focus=right]")
    before = page.names()
    page.driver.refresh()
    page.until("return document.body.dataset.ready && document.querySelector('.answer')")
    page.settle()
    assert page.names() == before and page.find("#candidates-unseen").is_selected()
    assert page.find("[data-focus=right]").get_attribute("aria-pressed") == "true"
    page.click("#forget")
    page.click("#forget-really")
    page.driver.refresh()
    page.until("return document.body.dataset.ready")
    assert not page.all(".card")


def test_large_photos_are_scaled_down_before_they_are_sent_and_sending_can_be_cancelled(page):
    page.sample("cat")
    large, sent, how = page.run(LARGE)
    assert large > 1_000_000 and sent < large / 2 and how == "done"
    page.run(
        "const ask = window.fetch; window.fetch = (path, options) => path !== '/api/classify' ? ask(path, options) :"
        " new Promise((_, reject) => options.signal.addEventListener('abort', () => {"
        " window.fetch = ask; reject(new DOMException('', 'AbortError')); }));"  # as slow as can be
    )
    page.run("document.querySelector('[data-sample=coffee]').click()")
    page.until("return document.querySelector('.waiting .quiet')")
    page.click(".waiting .quiet")
    page.until("return document.querySelector('.card .problem')?.textContent === 'Cancelled.'")
    page.click("[data-focus=retry]")
    page.until("return document.querySelector('.card .answer')")


def test_marks_make_a_score_and_answers_a_table(page):
    page.sample("coffee")
    page.click("[data-focus=right]")
    page.sample("cat")
    page.click("[data-focus=wrong]")
    assert page.text(".score-line") == "1 of 2 right, by your marks"
    table = page.run(
        "const [{ tableOf, toCsv }, { state }] = await Promise.all(['words', 'state'].map((name) =>"
        " import(`/static/${name}.js`))); return toCsv(tableOf(state.photos))"
    )
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [(row["photo"], row["judged"]) for row in rows] == [("cat.jpg", "wrong"), ("coffee.jpg", "right")]
    assert rows[0]["guess_1"] == page.names()[0] and 0 < float(rows[0]["guess_1_probability"]) <= 1
    assert rows[0]["guess_1_id"] == page.ids()[0] and all(re.fullmatch("[a-z0-9_]+", name) for name in rows[0])
    verdict = page.run("return import('/static/state.js').then(({ state }) => state.current.answer.verdict)")
    assert (rows[0]["verdict"], rows[0]["verdict_id"]) == (verdict["say"], verdict["id"])
    formula = page.run("return import('/static/words.js').then(({ toCsv }) => toCsv([['=1+1', 'a \"b\", c']]))")
    assert formula == '\'=1+1,"a ""b"", c"\r\n'


def test_the_live_camera_names_what_it_sees(page):
    page.click("#live")
    page.until("return document.querySelector('.live-guess')?.textContent.startsWith('Best guess: ')")
    page.click("#live-keep")
    page.until("return document.querySelector('.card .answer') && !document.querySelector('dialog')")
    assert page.find(".card").get_attribute("aria-label").startswith("camera ")
