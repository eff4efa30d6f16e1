"""A headless Chromium, and a server started as a user starts it."""

from __future__ import annotations

import json
import lzma
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --disable-dev-shm-usage "
    "--use-fake-device-for-media-stream --use-fake-ui-for-media-stream"
)
AXE = Path(__file__).parent / "axe" / "axe.min.js.xz"
DESK, PHONE = (1360, 860), (390, 844)


class Page:
    """What a person does with the page, in a few words."""

    def __init__(self, driver: webdriver.Chrome, address: str):
        self.driver, self.address = driver, address

    def open(self, view: str = "") -> None:
        self.driver.get("about:blank")  # else a change of the part behind # would not load the page anew
        self.driver.get(f"{self.address}/{view}")
        self.until("return document.body.dataset.ready")

    def forget(self) -> None:
        """Nothing of the last visit is left in the browser."""
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.address, "storageTypes": "all"})

    def offline(self, cut: bool) -> None:
        """Cut the browser off from the server, as if that had stopped; or connect it again."""
        speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": cut, **speed})

    def axe(self) -> list[str]:
        """What axe-core finds wrong with the page as it is shown: the rule and where it is broken."""
        if not self.run("return Boolean(window.axe)"):
            self.run(lzma.decompress(AXE.read_bytes()).decode())
        script = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(done)"
        found = self.driver.execute_async_script(script)["violations"]
        return [f"{rule['impact']} {rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]

    def until(self, script: str, *arguments, seconds: float = 30):
        """Wait until the script returns something true, and return that."""
        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(
            lambda driver: driver.execute_script(script, *arguments), f"never true: {script}"
        )

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        """In one step: an element that was found may be drawn anew before it is read."""
        script = "const found = document.querySelector(arguments[0]); return found.innerText ?? found.textContent"
        return self.run(script, selector)

    def click(self, selector: str) -> None:
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def sample(self, name: str) -> None:
        """Click a sample and wait for its answers and their reasons."""
        before = self.run("return document.querySelector('.card')?.id ?? ''")
        self.run("document.querySelector(`[data-sample=${arguments[0]}]`).click()", name)
        self.until("return ![arguments[0], undefined].includes(document.querySelector('.card')?.id)", before)
        self.settle()
        self.until(
            "return document.querySelector('.card .tree-drawing') && document.querySelector('.card .heat-words')"
        )

    def settle(self) -> None:
        """Wait until every photo has answers or a message, and nothing moves."""
        self.until(
            "return document.querySelectorAll('[aria-busy=true]').length === 0 && document.getAnimations()"
            ".filter((one) => one.playState === 'running').length === 0"
        )

    def names(self, within: str = ".card") -> list[str]:
        return self._texts(within, ".answer .name")

    def ids(self) -> list[str]:
        return self.run("return [...document.querySelectorAll('.card .answer')].map((row) => row.dataset.id)")

    def marks(self, within: str = ".card") -> list[str]:
        script = "return [...document.querySelectorAll(`${arguments[0]} .answer .mark`)].map((e) => e.dataset.mark)"
        return self.run(script, within)

    def _texts(self, within: str, selector: str) -> list[str]:
        script = (
            "return [...document.querySelector(arguments[0]).querySelectorAll(arguments[1])].map((e) => e.textContent)"
        )
        return self.run(script, within, selector)

    def size(self, width: int, height: int, phone: bool = False) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 2 if phone else 1, "mobile": phone},
        )
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": phone})

    def colours(self, scheme: str) -> None:
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "features": [
                    {"name": "prefers-color-scheme", "value": "light" if scheme == "forced" else scheme},
                    {"name": "forced-colors", "value": "active" if scheme == "forced" else "none"},
                ]
            },
        )

    def hover(self, selector: str) -> None:
        ActionChains(self.driver).move_to_element(self.find(selector)).perform()

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Over an element, from one place in it to another, each 0 to 1 from its left and its top."""
        element = self.find(selector)
        self.run("arguments[0].scrollIntoView({block: 'center'})", element)
        width, height = element.size["width"], element.size["height"]
        first = [round((start[0] - 0.5) * width), round((start[1] - 0.5) * height)]
        step = [round((end[0] - start[0]) * width), round((end[1] - start[1]) * height)]
        chain = ActionChains(self.driver).move_to_element_with_offset(element, *first).click_and_hold()
        chain.move_by_offset(*step).release().perform()

    def slide(self, selector: str, value: float) -> None:
        """Move a slider."""
        self.run(
            "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
            "s.dispatchEvent(new Event('input', { bubbles: true }))",
            selector,
            value,
        )

    def complaints(self) -> list[str]:
        """What the browser's console has to say since the last time: errors and warnings."""
        entries = (entry for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING"))
        return [entry["message"] for entry in entries]


@contextmanager
def chromium(profile: Path) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}", f"--window-size={DESK[0]},{DESK[1]}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()


@contextmanager
def serving(*arguments: str | Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """`unseen serve ARGUMENTS`: its address and its process, which is ended with Ctrl-C."""
    command = [sys.executable, "-m", "unseen", "serve", "--json", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server did not start:\n{process.communicate()[1]}")
        yield json.loads(line)["address"], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
