"""Whole pages in wide and narrow windows. Each test saves screenshots in its `tmp_path`."""

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from tests.support import finished
from tests.support.finished import START
from tests.unit.report.test_comparison import compared_pair
from tfsteps import report
from tfsteps.report import comparison_page
from tfsteps.runs.events import State
from tfsteps.runs.pipeline_record import PipelineRecord, StepRecord

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [360, 1320])
@pytest.mark.parametrize("make", ["succeeded", "failed", "never_started", "many", "served"])
def test_a_report_is_whole(show, resize, tmp_path, make, width):
    resize(width)
    page = show(getattr(finished, make)())
    page.save_screenshot(tmp_path / f"{make}-{width}.png")
    page.browser.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.assert_whole()


def test_the_report_of_a_run_is_whole_and_leads_to_those_of_its_steps(show, resize, browser, tmp_path):
    attempt = finished.failed()
    report.write(attempt)
    identity = attempt.status().identity
    steps = [
        StepRecord(name=name, state=state, exit_code=code, started=START + start, ended=START + end)
        for name, state, code, start, end in (
            ("prepare", State.SUCCEEDED, 0, -40, -2),
            (f"for-loop-1-iteration-10/{'long-' * 30}name", State.FAILED, 1, -30, -10),
            ("export", State.SUCCEEDED, 0, 66, 70),
        )
    ]
    times = {"created": START - 41, "ended": START + 72}
    ended = {"state": State.FAILED, "message": "step train failed with exit code 10"}
    PipelineRecord(run=identity.run, pipeline="mnist", steps=steps, **ended, **times).write()
    resize(360)
    page = show(report.write_run(identity.run))
    page.save_screenshot(tmp_path / "run-360.png")
    page.assert_whole()
    resize(1320)
    page.save_screenshot(tmp_path / "run-1320.png")
    page.assert_whole()
    labels = [label.rect["width"] for label in page.all(".timeline .label > *")]
    assert max(labels) < 280, "long names do not cover the bars"
    table, scroll = page.one(".steps").rect, page.one("#section-steps .scroll").rect
    assert table["width"] <= scroll["width"] + 1
    assert all(cell.get_property("scrollWidth") <= cell.rect["width"] + 1 for cell in page.all(".steps :is(th, td)"))
    assert "failed after" in page.hover(page.all(".timeline .bar")[1])
    page.one("#section-failure a").click()
    assert browser.current_url == attempt.report.as_uri()
    browser.back()
    browser.get_log("performance")
    browser.get(page.url)


def test_a_comparison_has_the_curves_of_all_runs_and_fits_a_phone(show, resize, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(comparison_page.page(compared_pair()), encoding="utf-8")
    resize(360)
    page = show(file)
    page.assert_whole()
    hidden = "return [...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth).length"
    assert page.browser.execute_script(hidden) == 0, "two runs fit without scrolling"
    assert [head.text for head in page.all("#section-runs thead th")] == ["one", "two"]
    loss = next(figure for figure in page.all("figure") if "train/loss" in figure.text)
    assert [run.text for run in loss.find_elements(By.CSS_SELECTOR, ".legend .run")] == ["one", "two"]
    strokes = [page.style(f"figure .curve.c{place} path", "stroke") for place in (0, 1)]
    keys = [page.style(f"#section-runs .key.c{place}", "borderTopColor") for place in (0, 1)]
    assert strokes == keys
    assert strokes[0] != strokes[1]
    tip = page.press(loss.find_element(By.CSS_SELECTOR, "[data-chart]"), Keys.HOME)
    assert [line.split(":")[0] for line in tip.splitlines()] == ["step 0", "one", "two"]
    page.save_screenshot(tmp_path / "comparison-360.png")
    resize(1320)
    page.save_screenshot(tmp_path / "comparison-1320.png")
