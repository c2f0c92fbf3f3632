"""Reports in real headless Chromium: seen, clicked, hovered over, without an error and without a network."""

import itertools

import pytest
from selenium.webdriver import ActionChains, Keys

from tests.support import finished
from tests.support.event_writer import ScalarWriter
from tests.support.finished import attempt_of, log, ran
from tfsteps.runs.events import State

pytestmark = pytest.mark.browser


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
    tip = page.hover(bars[1])
    for part in (
        "worker-0, start 2 of 3",
        "failed, exit code 1, PeerLost",
        "ran 20s",
        "CPU 16s",
        "411 MiB",
        "pid 4712",
    ):
        assert part in tip
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
    assert len(page.all(".graph .node")) == len(page.all("details.replica")) == 65
    assert not page.one("#worker-0").is_displayed()
    summary = page.one("details.role > summary").text
    assert summary.split("\n") == ["worker", "64 replicas", "64 unknown", "1 restart"]
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


def test_without_a_script_everything_can_be_read(show, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = show(finished.many())
        assert not page.one("#log-search").is_displayed()
        assert not page.one("button.csv").is_displayed()
        assert not any(button.is_displayed() for button in page.all("button.log"))
        page.one("details.role > summary").click()
        page.one("#worker-63 > summary").click()
        assert page.one("#worker-63 pre").text.endswith("loss 0.0040")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_on_paper_there_is_nothing_to_click_and_nothing_is_cut(show):
    page = show(finished.succeeded())
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert not any(item.is_displayed() for item in page.all("nav"))
        assert page.one("#chief-0 pre").value_of_css_property("max-height") == "none"
    finally:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
