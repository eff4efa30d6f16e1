"""How the page looks and whom it reaches: keyboard, screen reader, colours, phone and desk, offline; screenshots."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from support import browser

REPOSITORY = Path(__file__).resolve().parents[2]
SCREENSHOTS = REPOSITORY / "screenshots"
PICTURES = {  # screenshot -> picture in docs/images, renewed with UNSEEN_UPDATE_IMAGES=1
    "readme-desk-light": "page",
    "4-compare-desk-light": "page-compare",
    "5-explore-desk-dark": "page-explore",
    "2-recognise-phone-light": "page-phone",
}


def test_keyboard_reaches_everything_and_shows_where_it_is(page):
    def tab():
        ActionChains(page.driver).send_keys(Keys.TAB).perform()

    tab()
    assert page.run("return document.activeElement.className") == "skip"
    reached = []
    for _ in range(16):
        tab()
        reached.append(page.run("const a = document.activeElement; return a.dataset.view || a.id || a.dataset.sample"))
        outline = page.run(
            "const a = document.activeElement; const shown = a.id === 'pick' ? a.nextElementSibling : a;"
            "return getComputedStyle(shown).outlineStyle"
        )
        assert outline == "solid", reached
    for wanted in ("recognise", "compare", "grow", "explore", "bundle", "theme", "pick", "cat", "galaxies"):
        assert wanted in reached
    page.run("document.querySelector('[data-sample=cat]').focus()")
    page.driver.switch_to.active_element.send_keys(Keys.ENTER)
    page.until("return document.querySelector('.answer')")


NAMELESS = """
const named = (e) => (e.getAttribute("aria-label") || e.textContent.trim() || e.title
  || (e.labels && [...e.labels].map((l) => l.textContent).join("")) || e.querySelector?.("img[alt]:not([alt=''])"));
const shown = (e) => e.checkVisibility();
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
return [
  ...[...document.querySelectorAll("button, a[href], input, select, textarea, [role=combobox]")].filter((e) => shown(e) && !named(e)).map((e) => `no name: ${e.outerHTML.slice(0, 90)}`),
  ...[...document.querySelectorAll("img:not([alt])")].map((e) => `no alt: ${e.outerHTML.slice(0, 90)}`),
  ...ids.filter((id, at) => ids.indexOf(id) !== at).map((id) => `twice: ${id}`),
  ...[...document.querySelectorAll("[aria-controls], [aria-labelledby]")].filter((e) => !document.getElementById(e.getAttribute("aria-controls") || e.getAttribute("aria-labelledby"))).map((e) => `points nowhere: ${e.outerHTML.slice(0, 90)}`),
  ...(document.querySelectorAll("main").length === 1 && document.querySelector("header") && document.querySelector("nav[aria-label]") ? [] : ["landmarks"]),
  ...([...document.querySelectorAll("h1")].filter(shown).length <= 1 ? [] : ["two main headings"]),
  ...(document.documentElement.lang === "en" ? [] : ["language"]),
];
"""  # noqa: E501

CONTRAST = """
const light = (colour) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const probe = document.body.appendChild(document.createElement("i"));
const colour = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
const ratio = (a, b) => { const [x, y] = [light(colour(a)), light(colour(b))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
const pairs = [["ink", "paper"], ["soft", "paper"], ["soft", "card"], ["soft", "sunk"], ["seen", "card"], ["unseen", "card"], ["guess", "card"],
  ["seen", "sunk"], ["unseen", "sunk"], ["guess", "sunk"], ["bad", "bad-back"], ["unseen", "unseen-back"], ["on-main", "main"]];
const found = pairs.map(([a, b]) => [`${a} on ${b}`, ratio(a, b)]);
probe.remove();
return found;
"""  # noqa: E501


@pytest.mark.parametrize("view", ["recognise", "compare", "grow", "explore"])
def test_names_for_screen_readers(page, view):
    page.sample("cat")
    page.click(f"[data-view={view}]")
    ready = {"compare": ".column .answer", "explore": ".near-list", "recognise": ".answer", "grow": "#grow-form"}[view]
    page.until("return document.querySelector(arguments[0])", ready)
    assert page.run(NAMELESS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(page, scheme):
    page.colours(scheme)
    weak = {pair: round(ratio, 2) for pair, ratio in page.run(CONTRAST) if ratio < 4.5}
    assert weak == {}  # WCAG AA for text of any size


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


def test_nothing_comes_from_elsewhere(page):
    page.sample("cat")
    page.click("[data-view=explore]")
    page.until("return document.querySelector('.near-list')")
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(loaded) > 15
    assert [name for name in loaded if not name.startswith((page.address, "blob:"))] == []


def test_the_api_describes_itself_offline(page):
    page.driver.get(f"{page.address}/docs")
    page.until("return document.querySelectorAll('.operation').length === 12")
    page.click(".operation summary")
    assert f"curl -F files=@photo.jpg -F k=3 -F candidates=unseen {page.address}/api/classify" in page.text(
        ".operation pre"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", ["desk", "phone"])
def test_screenshots(page, device, scheme):
    """Made to be looked at; what is asserted is that nothing is cut off at the side."""
    SCREENSHOTS.mkdir(exist_ok=True)
    page.size(*(browser.PHONE if device == "phone" else browser.DESK), phone=device == "phone")
    page.colours(scheme)
    page.open()

    def shoot(name: str) -> None:
        page.settle()
        page.run("if (document.activeElement) document.activeElement.blur()")
        assert page.run("return document.documentElement.scrollWidth <= innerWidth"), name
        shot = SCREENSHOTS / f"{name}-{device}-{scheme}.png"
        page.driver.save_screenshot(str(shot))
        if os.environ.get("UNSEEN_UPDATE_IMAGES") and shot.stem in PICTURES:
            _picture_for_the_docs(shot, PICTURES[shot.stem])

    shoot("1-start")
    page.sample("rocket")
    page.sample("coffee")
    page.run("document.getElementById('candidates-unseen').click()")
    page.until("return document.getElementById('count').textContent.startsWith('20,84')")
    page.until(
        "return document.querySelector('.why h3')?.textContent.includes(document.querySelector('.name').textContent)"
    )
    shoot("2-recognise")
    if device == "desk":
        page.size(browser.DESK[0], 1020)  # high enough for the reasons
        shoot("readme")
        page.size(*browser.DESK)
    page.run("document.querySelector('.why').scrollIntoView({ block: 'end' })")
    shoot("3-why")
    page.run("location.hash = '#compare'")
    page.until("return document.querySelectorAll('.column .answer').length === 15")
    shoot("4-compare")
    page.run("location.hash = '#explore/n02439033'")
    page.until("return document.querySelector('.near-list')")
    shoot("5-explore")
    page.run("location.hash = '#grow'")
    shoot("6-grow")


def _picture_for_the_docs(source: Path, name: str) -> None:
    from PIL import Image

    target = REPOSITORY / "docs" / "images" / f"{name}.png"
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(source) as image:
        image.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.FLOYDSTEINBERG).save(target, optimize=True)
    assert target.stat().st_size < 300_000
