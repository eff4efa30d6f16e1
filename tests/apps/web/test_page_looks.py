"""How the page looks and whom it reaches: keyboard, screen reader, colours, phone and desk, offline; screenshots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from support import browser

REPOSITORY = Path(__file__).resolve().parents[3]
SCREENSHOTS = REPOSITORY / "screenshots"
PICTURES = {  # screenshot -> picture in docs/images, renewed with UNSEEN_UPDATE_IMAGES=1
    "readme-desk-light": "page",
    "4-explore-desk-light": "page-explore",
    "2-recognise-phone-dark": "page-phone",
}


def test_keyboard_reaches_everything_and_shows_where_it_is(page):
    def tab():
        ActionChains(page.driver).send_keys(Keys.TAB).perform()

    tab()
    assert page.run("return document.activeElement.className") == "skip"
    reached = []
    for _ in range(13):
        tab()
        reached.append(page.run("const a = document.activeElement; return a.dataset.view || a.id || a.dataset.sample"))
        outline = page.run(
            "const a = document.activeElement; const shown = a.id === 'pick' ? a.nextElementSibling : a;"
            "return getComputedStyle(shown).outlineStyle"
        )
        assert outline == "solid", reached
    for wanted in ("recognise", "grow", "explore", "theme", "pick", "cat", "raccoon"):
        assert wanted in reached
    page.run("document.querySelector('[data-sample=cat]').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until("return document.querySelector('.answer')")


READY = {
    "recognise": ".contrast",
    "grow": ".proposals .chip-button",
    "explore": ".topic",
    "explore/n02439033": ".near-list",
}


@pytest.mark.parametrize("scheme", ["light", "dark", "forced"])
def test_axe_finds_nothing_wrong_on_any_view(page, scheme):
    page.colours(scheme)
    page.until("return document.querySelector('.story-map canvas[data-ready]')")
    page.settle()
    wrong = {"start": page.axe()}
    page.sample("cat")
    page.sample("rocket")
    for view, ready in READY.items():
        page.run("location.hash = `#${arguments[0]}`", view)
        if view == "grow":
            page.find("#grow-name").send_keys("electric bicycle")
        page.until("return document.querySelector(arguments[0])", ready)
        page.settle()
        wrong[view] = page.axe()
    assert {view: found for view, found in wrong.items() if found} == {}


def test_colours_can_be_chosen_and_are_remembered(page):
    def ground():
        return page.run("return getComputedStyle(document.body).backgroundColor")

    bright = ground()
    page.click("#theme")
    dark = ground()
    assert dark != bright and page.find("#theme").get_attribute("aria-label") == "Light colours"
    page.open()
    assert ground() == dark
    page.click("#theme")
    page.run("localStorage.clear()")
    page.colours("dark")
    page.open()
    assert ground() == dark  # the system's choice counts where none was made


def test_on_a_phone_the_verdict_is_in_view(page):
    page.size(*browser.PHONE, phone=True)
    page.open()
    page.sample("cat")
    inside = "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
    assert page.run(f"{inside} return box.top >= 0 && box.bottom <= innerHeight", ".verdict h2")
    assert page.run(f"{inside} return box.top < innerHeight", ".answer")  # and so are the first guesses
    assert not page.find(".samples").is_displayed() and page.find("#drop .button").is_displayed()
    assert page.run("return Math.max(innerWidth, document.documentElement.scrollWidth)") == browser.PHONE[0]


@pytest.mark.parametrize(("device", "scheme"), [("desk", "light"), ("phone", "dark")])
def test_screenshots(page, device, scheme):
    """Made to be looked at; what is asserted is that nothing is cut off at the side."""
    SCREENSHOTS.mkdir(exist_ok=True)
    width, height = browser.PHONE if device == "phone" else browser.DESK
    page.size(width, height, phone=device == "phone")
    page.colours(scheme)
    page.open()
    page.until("return document.querySelector('.story-map canvas[data-ready]')")

    def shoot(name: str) -> None:
        page.settle()
        page.run("if (document.activeElement) document.activeElement.blur()")
        assert page.run("return Math.max(innerWidth, document.documentElement.scrollWidth)") == width, name
        shot = SCREENSHOTS / f"{name}-{device}-{scheme}.png"
        page.driver.save_screenshot(str(shot))
        if os.environ.get("UNSEEN_UPDATE_IMAGES") and shot.stem in PICTURES:
            _picture_for_the_docs(shot, PICTURES[shot.stem])

    shoot("1-start")
    page.sample("rocket")
    page.sample("temple")
    page.until("return document.querySelector('.map-frame canvas[data-ready]')")
    shoot("2-recognise")
    if device == "desk":
        page.size(width, 1180)  # high enough for the reasons
        shoot("readme")
        page.size(width, height)
    page.run("document.querySelector('.why').scrollIntoView({ block: 'end' })")
    shoot("3-why")
    page.run("location.hash = '#explore/n02439033'")
    page.until("return document.querySelector('.near-list')")
    page.until("return document.querySelector('.map canvas[data-ready]')?.dataset.cell > 30")
    page.run("location.hash = '#explore'")
    page.until("return document.querySelector('.topic')")
    page.click("[aria-label='The whole map']")
    page.until("return document.querySelector('.map canvas').dataset.zoom === '1.00'")
    page.run("window.scrollTo(0, 0)")
    shoot("4-explore")
    page.run("location.hash = '#grow'")
    shoot("5-grow")


def _picture_for_the_docs(source: Path, name: str) -> None:
    from PIL import Image

    target = REPOSITORY / "docs" / "images" / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(source) as image:
        image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.FLOYDSTEINBERG).save(target, optimize=True)
    assert target.stat().st_size < 300_000
