"""The page of all runs in a real browser: filtered, sorted, by keyboard, on a phone."""

import itertools
import time

import pytest
from selenium.webdriver import Keys

from tests.support import finished
from tests.support.finished import START
from tests.unit.cli.command import output_lines
from tests.unit.cli.statuses import saved
from tfsteps import report
from tfsteps.report.formats import UNKNOWN
from tfsteps.runs.events import State

pytestmark = pytest.mark.browser

EVIL = "<img src=x onerror=alert(1)></script>"
STATES = [State.SUCCEEDED, State.FAILED, State.SUCCEEDED, State.CANCELLED]


@pytest.fixture
def listed(show, tmp_path):
    """Open the page of all runs, which `tfsteps runs` writes with these options."""

    def opened(*options):
        file = tmp_path / "runs.html"
        assert output_lines("runs", "--html", file, *options) == [str(file)]
        return show(file)

    return opened


@pytest.fixture
def four_runs():
    values = [{"loss": 0.5, "accuracy": 9.5}, {}, {"loss": 12.0}, {"loss": -1.0}]
    for place, (state, metrics) in enumerate(zip(STATES, values, strict=True)):
        created = START - 3600 * place
        saved(run=f"run-{place}", state=state, metrics=metrics, created=created, ended=created + 90 + place)


def column(page, name):
    heads = [head.text.split()[0] for head in page.all("table.runs thead th")]
    place = heads.index(name) + 1
    return [cell.text for cell in page.all(f"table.runs tbody tr > :nth-child({place})")]


def click(page, name):
    button = next(button for button in page.all("table.runs thead button") if button.text.split()[0] == name)
    button.send_keys(Keys.ENTER)


@pytest.mark.usefixtures("four_runs")
def test_a_column_is_sorted_by_its_head(listed):
    page = listed()
    assert column(page, "Run") == ["run-0", "run-1", "run-2", "run-3"]
    click(page, "loss")
    assert column(page, "loss") == ["12", "0.5", "-1", UNKNOWN]
    assert page.one("[aria-sort]").get_attribute("aria-sort") == "descending"
    click(page, "loss")
    assert column(page, "loss") == ["-1", "0.5", "12", UNKNOWN]
    assert page.one("[aria-sort]").get_attribute("aria-sort") == "ascending"
    click(page, "Duration")
    assert column(page, "Duration") == ["1m33s", "1m32s", "1m31s", "1m30s"]
    click(page, "Run")
    assert column(page, "Run") == ["run-0", "run-1", "run-2", "run-3"]


@pytest.mark.usefixtures("four_runs")
def test_the_filter_shows_the_runs_that_have_all_words(listed):
    page = listed()
    box = page.one("#run-filter")
    box.send_keys("SUCC run-")
    assert column(page, "Run") == ["run-0", "run-2"]
    assert page.one("#run-matches").text == "2 of 4 runs"
    box.send_keys("0")
    assert column(page, "Run") == ["run-0"]
    box.clear()
    box.send_keys(" ", Keys.BACKSPACE)
    assert len(column(page, "Run")) == 4
    assert page.one("#run-matches").text == "4 runs"


def test_a_run_leads_to_its_report(listed, browser):
    attempt = finished.failed()
    report.write(attempt)
    saved(run="other", state=State.SUCCEEDED)
    page = listed()
    (link,) = page.all("table.runs tbody a")
    link.send_keys(Keys.ENTER)
    assert browser.current_url == attempt.report.as_uri()
    browser.back()
    browser.get_log("performance")
    browser.get(page.url)
    assert "has no report" in page.all(".note")[-1].text


def test_hostile_text_is_text(listed):
    saved(run=EVIL, task=EVIL, state=State.FAILED, metrics={EVIL: 1.0}, message=EVIL, system=EVIL)
    page = listed()
    assert page.all("table.runs img") == []
    assert page.one("table.runs [scope=row]").text == EVIL
    assert page.all("table.runs tbody td")[-1].text == EVIL


@pytest.mark.parametrize(("scheme", "width"), [*itertools.product(["light", "dark"], [360, 1320])])
def test_the_page_is_whole(listed, resize, tmp_path, scheme, width):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    resize(width)
    report.write(finished.failed())
    for place, state in enumerate(itertools.islice(itertools.cycle([*STATES, State.RUNNING, State.LOST]), 30)):
        created = START - 5000 * place
        names = {"run": f"{'long-' * (place % 7)}run-{place}", "task": "train"}
        saved(**names, state=state, created=created, ended=created + 60, metrics={"val_accuracy": 1 / (place + 1)})
    page = listed()
    page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    page.save_screenshot(tmp_path / f"runs-{scheme}-{width}.png")
    page.assert_whole()
    red, green, blue = map(int, page.style("table.runs thead th", "backgroundColor").strip("rgb()").split(", "))
    assert (red + green + blue < 200) == (scheme == "dark")
    first = page.one("table.runs tbody tr:first-child [scope=row]").rect
    page.browser.execute_script("document.querySelector('.scroll.runs').scrollLeft = 400")
    assert page.one("table.runs tbody tr:first-child [scope=row]").rect["x"] == first["x"], "runs stay in sight"
    assert first["width"] < width / 2


def test_a_thousand_runs_stay_quick(listed):
    for place in range(1000):
        state, metrics = STATES[place % 4], {"loss": float(place)}
        saved(run=f"run-{place:04}", state=state, metrics=metrics, created=START - place, ended=START + 1)
    begin = time.monotonic()
    page = listed()
    assert time.monotonic() - begin < 20, "writing and drawing"
    assert page.browser.execute_script("return document.documentElement.outerHTML.length") < 1_500_000
    assert len(page.all("table.runs tbody tr")) == 250
    timed = """const begin = performance.now(); arguments[0].click(); document.body.offsetHeight;
        return performance.now() - begin"""
    head = next(button for button in page.all("table.runs thead button") if button.text == "loss")
    assert page.browser.execute_script(timed, head) < 3000
    assert column(page, "loss")[0] == "999", "those that are not drawn are sorted, too"
    typed = """const box = document.getElementById("run-filter"), begin = performance.now(); box.value = "run-01";
        box.dispatchEvent(new Event("input")); document.body.offsetHeight; return performance.now() - begin"""
    assert page.browser.execute_script(typed) < 3000
    assert page.one("#run-matches").text == "100 of 1,000 runs"
    assert not page.one("#run-more").is_displayed()
    page.one("#run-filter").send_keys(Keys.BACKSPACE * 6)
    page.one("#run-more").send_keys(Keys.ENTER)
    assert len(page.all("table.runs tbody tr")) == 1000


@pytest.mark.usefixtures("four_runs")
def test_without_a_script_all_runs_can_be_read(listed, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page = listed()
        assert not page.one("#run-filter").is_displayed()
        assert page.all("table.runs thead button") == []
        assert len(page.all("table.runs tbody tr")) == 4
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
