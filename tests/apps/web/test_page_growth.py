"""Growing in the browser: a new class is proposed a place, answers at once, is taken out again or saved."""

from __future__ import annotations

from selenium.webdriver.common.keys import Keys


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
    page.until(added, name, seconds=60)


def take_out(page, name: str) -> None:
    page.click(f'[aria-label="Undo: remove {name}"]')
    page.until("return document.querySelectorAll('.added-name').length === 0")


def test_add_a_class_see_it_answer_take_it_out_again(page):
    page.sample("cat")
    grow(page, "stripy moggy", "tabby")
    page.until("return document.getElementById('places-title')?.checkVisibility()")  # its places were looked at
    page.click("[data-view=recognise]")
    page.find("#candidates-branch").send_keys(Keys.SPACE)
    page.find("#branch").send_keys("tabby")
    page.until("return document.querySelector('#branch-list [role=option] b')?.textContent === 'tabby'")
    page.find("#branch").send_keys(Keys.ENTER)
    page.until("return document.getElementById('count').textContent.startsWith('2 ')")
    page.settle()
    assert "stripy moggy" in page.text(".answers")

    page.click("[data-view=grow]")
    placed = page.until("return document.querySelector('.placed')?.textContent")
    assert "stripy moggy is number" in placed and "of 2" in placed and "Before" in placed and "Now" in placed
    page.find("#save-name").send_keys("My Cats")
    page.click("#save-form button")
    page.until("return document.querySelector('.told').textContent.includes('unseen serve')", seconds=60)
    assert "/my-cats" in page.text(".told")
    take_out(page, "stripy moggy")
    page.click("[data-view=recognise]")
    page.until("return document.getElementById('count').textContent.startsWith('1 ')")
    assert page.names() == ["tabby"]


def test_a_place_is_proposed_and_what_exists_is_told(page):
    page.click("[data-view=grow]")
    page.find("#grow-name").send_keys("electric bicycle")
    page.until("return document.querySelector('.proposals .chip-button')?.textContent === 'bicycle'")
    page.click(".proposals .chip-button")
    assert page.text(".chip") == "bicycle"
    page.find("#grow-name").clear()
    page.find("#grow-name").send_keys("samosa")
    page.until("return document.querySelector('.exists')?.textContent.startsWith('samosa exists: look at it')")
    page.click(".exists a")
    page.until("return document.querySelector('.class-card h2')?.textContent === 'samosa'")


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
    take_out(page, name)


def test_teach_it_with_one_photo(page):
    page.sample("rocket")
    before = page.names()
    assert "falcon nine" not in before
    page.click("[data-focus=wrong]")
    page.until("return document.querySelector('.teach').open")  # then what is it?
    page.find(".teach input").send_keys("falcon nine")
    page.until("return document.querySelector('.teach [role=option] b')?.textContent.includes('not here: add it')")
    page.find(".teach input").send_keys(Keys.ENTER)
    kind = page.until("return document.activeElement.closest('.teach-kind') && document.activeElement")
    kind.send_keys("rocket")
    page.until("return document.querySelector('.teach-kind [role=option] b')?.textContent === 'rocket'")
    kind.send_keys(Keys.ENTER)
    page.until("return document.querySelector('#notice p')?.textContent === 'falcon nine: learned from 1 photo.'")
    page.settle()
    assert "learned from 1 photo" in page.text(".answers-side")  # and never "never shown"
    assert "falcon nine" in page.text(".answers-side")
    page.click(".notice-action")  # undo
    names = "[...document.querySelectorAll('.card .answer .name')].map((one) => one.textContent)"
    page.until(f"return JSON.stringify({names}) === JSON.stringify(arguments[0])", before)
    page.find(".teach summary").click()
    page.find(".teach input").send_keys("space shuttle")
    page.until("return document.querySelector('.teach [role=option] b')?.textContent === 'space shuttle'")
    page.find(".teach input").send_keys(Keys.ENTER)
    page.click("[data-view=grow]")
    page.until("return document.body.textContent.includes('Taught with your photos (1)')")
    page.click("[aria-label='Undo: remove space shuttle']")
    page.until("return !document.body.textContent.includes('Taught with your photos')")
