"""Whole pages in wide and narrow windows. Each test saves screenshots in its `tmp_path`."""

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from tests.support import finished
from tests.unit.report.test_comparison import compared_pair
from tfsteps.report import comparison_page

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [360, 1320])
@pytest.mark.parametrize("make", ["succeeded", "failed", "never_started", "many", "served"])
def test_a_report_is_whole(show, resize, tmp_path, make, width):
    resize(width)
    page = show(getattr(finished, make)())
    page.save_screenshot(tmp_path / f"{make}-{width}.png")
    page.browser.execute_script("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
    page.assert_whole()


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
    said = page.press(loss.find_element(By.CSS_SELECTOR, "[data-chart]"), Keys.HOME)
    assert [line.split(":")[0] for line in said.splitlines()] == ["step 0", "one", "two"]
    page.save_screenshot(tmp_path / "comparison-360.png")
    resize(1320)
    page.save_screenshot(tmp_path / "comparison-1320.png")
