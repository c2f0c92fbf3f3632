"""A browser for all tests of this folder, and the pages that it opens."""

import base64
import itertools
import json
import time

import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from tests.support.browser import chromium
from tests.support.waiting import until
from tfsteps import report
from tfsteps.runs.store import AttemptFolder


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


class Page:
    """An open page."""

    def __init__(self, browser, file):
        self.browser = browser
        self.url = file.as_uri()
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get(self.url)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        (element,) = self.all(selector)
        return element

    def text(self, selector, start=""):
        """Return the text of an element, once it has one that begins with `start`."""
        return until(lambda: self.one(selector).text.startswith(start) and self.one(selector).text)

    def style(self, selector, name):
        return self.browser.execute_script(
            "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name
        )

    def hover(self, element, dx=0):
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        turns = itertools.cycle((0, 1))  # where the pointer is already, it does not move
        return self._said(
            lambda: ActionChains(self.browser).move_to_element_with_offset(element, dx, next(turns)).perform()
        )

    def press(self, element, *keys):
        return self._said(lambda: element.send_keys(*keys))

    def focus(self, element):
        script = "arguments[0].blur(); arguments[0].focus({focusVisible: true})"
        return self._said(lambda: self.browser.execute_script(script, element))

    def _said(self, act):
        """Act until it is answered, and return the answer: scrolling hides it, and the page is told of that later."""
        for _ in range(200):
            act()
            if text := self.one("#tip").text:
                return text
            time.sleep(0.1)
        return ""

    def save_screenshot(self, file):
        """Save the whole page as it is laid out, from its top to its end."""
        width, height = self.browser.execute_script("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, 8000), "scale": 1}
        shot = self.browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        file.write_bytes(base64.b64decode(shot["data"]))

    def assert_whole(self):
        """Assert that the page does not scroll sideways, and that nothing is cut off outside what scrolls by itself."""
        assert self.browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        outside = """const scrolls = (e) => e.closest(".scroll, .graph, .timeline, pre, nav, .sprite, #tip");
            return [...document.querySelectorAll("body *")].filter((e) => !scrolls(e) && e.getBoundingClientRect().right
                > innerWidth + 1).map((e) => e.outerHTML.slice(0, 80))"""
        assert self.browser.execute_script(outside) == []

    def requests(self):
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]


@pytest.fixture
def show(browser):
    """Open the report of an attempt, or a page; at the end, no error was logged and no other file was requested."""
    pages = []

    def opened(page):
        pages.append(Page(browser, report.write(page) if isinstance(page, AttemptFolder) else page))
        return pages[-1]

    yield opened
    assert browser.get_log("browser") == []
    assert [page.requests() for page in pages] == [[page.url] for page in pages]


@pytest.fixture
def resize(browser):
    """Set the width of the window, in CSS pixels; at the end of the test it is reset."""

    def set_width(width):
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    yield set_width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
