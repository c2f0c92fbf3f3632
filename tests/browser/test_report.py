"""Reports in real headless Chromium: seen, clicked, hovered over, without an error and without a network."""

import itertools
import json
import time

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

from tests.support import finished
from tests.support.browser import chromium
from tests.support.event_writer import ScalarWriter
from tests.support.finished import attempt_of, log, ran
from tests.unit.report.test_comparison import compared_pair
from tfsteps import report
from tfsteps.report import comparison_page
from tfsteps.runs.events import State
from tfsteps.runs.store import Attempt
from tfsteps.tensorboard.event_files import ScalarReader

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
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
            if said := self.one("#tip").text:
                return said
            time.sleep(0.1)
        return ""

    def requests(self):
        events = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]


@pytest.fixture
def show(browser):
    """Open the report of an attempt, or a page; at the end, no error was logged and no other file was requested."""
    pages = []

    def opened(page):
        pages.append(Page(browser, report.write(page) if isinstance(page, Attempt) else page))
        return pages[-1]

    yield opened
    assert browser.get_log("browser") == []
    assert [page.requests() for page in pages] == [[page.url] for page in pages]


def test_the_curves_are_drawn(show):
    page = show(finished.succeeded())
    assert [figure.text for figure in page.all("figcaption")][:2] == ["accuracy", "loss"]
    drawn = page.browser.execute_script(
        "return [...document.querySelectorAll('.curve path')].map((p) => [p.getTotalLength(), p.getBBox().width])"
    )
    assert len(drawn) == 5
    assert all(length >= width > 200 for length, width in drawn)
    points = [path.get_attribute("d").count("L") + 1 for path in page.all(".curve path")]
    assert points == [10, 10, 400, 400, 400]


def test_values_are_shown_under_the_pointer_and_by_the_keys(show):
    attempt = finished.succeeded()
    written = {(s.name, s.step): f"{s.value:.7g}" for s in ScalarReader(attempt.output / "logs").poll()}
    page = show(attempt)
    loss = page.all("[data-chart]")[1]
    assert page.hover(loss).splitlines()[0].startswith("step ")
    said = page.hover(loss, dx=int(loss.size["width"] / 2) - 3)
    assert said == f"step 399\neval: {written['eval/loss', 399]}\ntrain: {written['train/loss', 399]}"
    assert len(page.all(".cursor circle")) == 2
    ActionChains(page.browser).move_to_element(page.one("h1")).perform()
    assert not page.one("#tip").is_displayed()
    said = page.press(loss, Keys.HOME, Keys.ARROW_RIGHT)
    assert said == f"step 1\neval: {written['eval/loss', 39]} (step 39)\ntrain: {written['train/loss', 1]}"


@pytest.mark.parametrize("where", [".graph a[href='#worker-2']", ".timeline .bar[href='#worker-2']"])
def test_a_click_on_a_replica_opens_its_log(show, where):
    page = show(finished.succeeded())
    assert not page.one("#worker-2 pre").is_displayed()
    page.all(where)[0].click()
    pre = page.one("#worker-2 pre")
    assert pre.is_displayed()
    assert pre.text.splitlines()[-1].endswith(" step 299  loss 0.0011")
    assert page.browser.switch_to.active_element.tag_name == "summary"
    assert not page.one("#worker-1 pre").is_displayed()


def test_replicas_open_by_keyboard_too(show):
    page = show(finished.succeeded())
    page.one(".graph a[href='#chief-0']").send_keys(Keys.ENTER)
    assert page.one("#chief-0 pre").is_displayed()
    page.one("#chief-0 summary").send_keys(Keys.ENTER)
    assert not page.one("#chief-0 pre").is_displayed()


def test_an_incarnation_shows_how_it_ended(show):
    page = show(finished.failed())
    bars = page.all(".timeline .bar[href='#worker-0']")
    assert len(bars) == 3
    boxes = [bar.rect for bar in bars]
    assert all(a["x"] + a["width"] <= b["x"] + 1 for a, b in itertools.pairwise(boxes))
    said = page.hover(bars[1])
    for part in (
        "worker-0, start 2 of 3",
        "failed, exit code 1, PeerLost",
        "ran 20s",
        "CPU 16s",
        "411 MiB",
        "pid 4712",
    ):
        assert part in said
    assert "start 3 of 3" in page.focus(bars[2])
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    assert not page.one("#tip").is_displayed()


GREEN = {"failed": False, "never_started": False, "many": False, "served": False, "succeeded": True}


@pytest.mark.parametrize("make", GREEN)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_only_success_is_green(show, make, scheme, browser):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    page = show(getattr(finished, make)())
    for selector, name in ((".verdict", "backgroundColor"), ("header", "borderTopColor"), (".job .icon", "color")):
        red, green, blue = map(int, page.style(selector, name).strip("rgb()").split(", "))
        assert (green > red + 20 and green > blue) == GREEN[make]
    assert (page.one(".verdict").text == "Succeeded") == GREEN[make]
    page_colour = page.style("body", "backgroundColor")
    assert (page_colour == "rgb(17, 21, 27)") == (scheme == "dark")


def test_a_failure_is_explained_and_its_log_is_open(show):
    page = show(finished.failed())
    assert "ValueError: batch 311 holds <nan>" in page.one(".failure .summary").text
    assert page.one("#worker-1 pre").text.endswith("ValueError: batch 311 holds <nan>")
    assert "failed first" in page.one(".node.blamed").text
    page.one(".failure a").click()
    assert page.one("#worker-1").rect["y"] > 0


def test_64_replicas_are_all_there(show):
    page = show(finished.many())
    assert len(page.all(".graph .node")) == len(page.all("details")) == 65
    page.one(".graph a[href='#worker-63']").click()
    assert page.one("#worker-63 pre").text.endswith("loss 0.0040")
    names = page.browser.execute_script(
        """return [...document.querySelectorAll(".node")].filter((node) =>
            node.querySelector(".name").getBBox().width > node.querySelector("rect").getBBox().width - 32).length"""
    )
    assert names == 0, "names wider than their boxes"


def test_hostile_text_does_nothing(show):
    evil = "</script><script>document.title='pwned'</script><img src=http://x.invalid onerror=document.title='pwned'>"
    attempt, status = attempt_of("{name: one, command: [python], roles: {worker: {}}}", State.FAILED)
    status.message = evil
    ran(status.replicas[0], 0, 1, "failed", 1, evil)
    log(attempt, (0, "worker-0", evil.encode()), (1, "worker-0", b"\xff\x00\x1b[31mred\x1b[0m"))
    with ScalarWriter(f"{status.logs}/<b>") as writer:
        writer.scalar(evil, 0.5, 1)
    attempt.write(status)
    page = show(attempt)
    page.one(".graph a").click()
    assert page.one("#worker-0 pre").text.splitlines()[0].endswith(evil)
    assert page.one("#worker-0 pre").text.endswith("\ufffd␀red")
    assert page.hover(page.one("[data-chart]")) == "step 1\n<b>: 0.5"
    assert page.browser.title == "Failed: one · tfsteps"
    assert page.all("img") == []


@pytest.mark.parametrize("width", [390, 1320])
def test_the_page_never_scrolls_sideways(show, browser, width):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page = show(finished.failed())
    wide = page.browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert wide <= width


def test_a_comparison_has_the_curves_of_all_runs_and_fits_a_phone(show, browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(comparison_page.page(compared_pair()), encoding="utf-8")
    metrics = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        page = show(file)
        assert page.browser.execute_script("return document.documentElement.scrollWidth") <= 360
        hidden = "return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).length"
        assert page.browser.execute_script(hidden) == 0, "two runs fit without scrolling"
        assert [head.text for head in page.all("#section-runs thead th")] == ["one", "two"]
        loss = next(figure for figure in page.all("figure") if "train/loss" in figure.text)
        assert [run.text for run in loss.find_elements(By.CSS_SELECTOR, ".legend .run")] == ["one", "two"]
        strokes = [page.style(f"figure .curve.c{place} path", "stroke") for place in (0, 1)]
        keys = [page.style(f"#section-runs .key.c{place}", "borderTopColor") for place in (0, 1)]
        assert strokes == keys
        assert strokes[0] != strokes[1]
        said = page.press(loss.find_element(By.CSS_SELECTOR, "[data-chart]"), Keys.HOME)
        assert [line.split(":")[0] for line in said.splitlines()] == ["step 0", "one", "two"]
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
