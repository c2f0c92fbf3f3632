"""The search in the logs of a report."""

import pytest
from selenium.webdriver import Keys

from tests.support import finished
from tests.support.waiting import until

pytestmark = pytest.mark.browser


def test_a_search_shows_the_lines_and_the_replicas_that_match(show):
    page = show(finished.many())
    opened = [panel.get_attribute("id") for panel in page.all("details[open]")]
    whole = page.browser.execute_script("return document.querySelector('#worker-63 pre').textContent")
    page.one("#log-search").send_keys("LOSS 0.0040")
    assert page.text("#log-matches").endswith(" lines match, in 65 of 65 replicas")
    page.one("#log-search").send_keys(Keys.CONTROL, "a")
    page.one("#log-search").send_keys("no such line")
    assert page.text("#log-matches", "None").endswith(" lines matches")
    assert not [panel for panel in page.all("details") if panel.is_displayed()]
    page.one("#log-search").send_keys(Keys.CONTROL, "a", Keys.BACKSPACE)
    until(lambda: page.one("#log-matches").text == "")
    assert [panel.get_attribute("id") for panel in page.all("details[open]")] == opened
    until(lambda: page.browser.execute_script("return document.querySelector('#worker-63 pre').textContent") == whole)
    assert page.all("mark") == []


def test_a_search_highlights_what_it_shows(show):
    page = show(finished.failed())
    page.one("#log-search").send_keys("<nan>")
    assert page.text("#log-matches").endswith(" lines match, in 1 of 5 replicas")
    lines = page.one("#worker-1 pre").text.splitlines()
    assert len(lines) == len(page.all("#worker-1 mark")) == 2
    assert all("<nan>" in line for line in lines)
    assert {mark.text for mark in page.all("mark")} == {"<nan>"}
    assert not page.one("#worker-0").is_displayed()
    page.one(".graph a[href='#worker-0']").send_keys(Keys.ENTER)
    assert page.one("#worker-0").is_displayed()


def test_a_broad_search_draws_only_the_panels_that_are_opened(show):
    page = show(finished.many())
    page.browser.execute_script("document.querySelectorAll('details').forEach((panel) => { panel.open = true; })")
    page.one("#log-search").send_keys("s")
    assert page.text("#log-matches").endswith(" lines match, in 65 of 65 replicas")
    assert page.all("mark") == []
    page.one("#worker-63 summary").click()
    until(lambda: page.all("#worker-63 mark"))
    assert len(page.all("pre:has(mark)")) == 1
