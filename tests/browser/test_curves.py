"""The charts of a report in real headless Chromium: values on hover, log scale, CSV."""

import csv
import itertools

import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

from tests.support import finished
from tests.support.event_writer import ScalarWriter
from tests.support.finished import attempt_of
from tests.support.waiting import until
from tfsteps.runs.events import State
from tfsteps.tensorboard.event_files import ScalarReader

pytestmark = pytest.mark.browser


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
    tip = page.hover(loss, dx=int(loss.size["width"] / 2) - 3)
    assert tip == f"step 399\neval: {written['eval/loss', 399]}\ntrain: {written['train/loss', 399]}"
    assert len(page.all(".cursor circle")) == 2
    ActionChains(page.browser).move_to_element(page.one("h1")).perform()
    assert not page.one("#tip").is_displayed()
    tip = page.press(loss, Keys.HOME, Keys.ARROW_RIGHT)
    assert tip == f"step 1\neval: {written['eval/loss', 39]} (step 39)\ntrain: {written['train/loss', 1]}"


def test_a_log_scale_shows_decades_and_reports_what_it_leaves_out(show):
    attempt, status = attempt_of("{name: one, command: [python], roles: {worker: {}}}", State.SUCCEEDED)
    with ScalarWriter(f"{status.logs}/train") as writer:
        for step in range(100):
            writer.scalar("loss", 10.0 ** (2 - step / 20), step)
            writer.scalar("mixed", float(step % 10) - 2, step)
            writer.scalar("narrow", 0.9 + step / 1000, step)
            writer.scalar("negative", -1.0, step)
    attempt.write(status)
    page = show(attempt)
    loss, mixed, narrow, negative = page.all("figure")
    drawing = "return document.querySelector('figure svg').innerHTML"
    linear = page.browser.execute_script(drawing)
    loss.find_element(By.CSS_SELECTOR, "button.log").click()
    labels = loss.find_elements(By.CSS_SELECTOR, ".grid.y text")
    assert [text.text for text in labels] == ["0.001", "0.01", "0.1", "1", "10", "100"]
    distances = [float(a.get_attribute("y")) - float(b.get_attribute("y")) for a, b in itertools.pairwise(labels)]
    assert max(distances) - min(distances) < 0.1, "decades are equally far apart"
    assert page.hover(loss.find_element(By.CSS_SELECTOR, "svg")).startswith("step ")
    assert "Not on a log scale" not in loss.text
    mixed.find_element(By.CSS_SELECTOR, "button.log").click()
    assert "Not on a log scale: 30 of 100 points, whose values are 0 or less." in mixed.text
    path = mixed.find_element(By.CSS_SELECTOR, ".curve path").get_attribute("d")
    assert path.count("M") == 10, "the line is broken where points are left out"
    assert "NaN" not in path
    narrow.find_element(By.CSS_SELECTOR, "button.log").click()
    labels = [text.text for text in narrow.find_elements(By.CSS_SELECTOR, ".grid.y text")]
    assert labels == ["0.9", "0.95", "1"], "round values where no decade ends"
    assert not negative.find_element(By.CSS_SELECTOR, "button.log").is_enabled()
    for figure in (loss, mixed):
        figure.find_element(By.CSS_SELECTOR, "button.log").click()
    assert "Not on a log scale" not in mixed.text
    ActionChains(page.browser).move_to_element(page.one("h1")).perform()
    assert page.browser.execute_script(drawing) == linear


def test_the_points_are_downloaded_as_csv(show, browser, tmp_path):
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    attempt, status = attempt_of("{name: one, command: [python], roles: {worker: {}}}", State.SUCCEEDED)
    with ScalarWriter(f"{status.logs}/train") as writer:
        for step in range(3):
            writer.scalar('=1,"x"', step / 8, step)
    attempt.write(status)
    page = show(attempt)
    page.one("button.csv").click()
    file = tmp_path / "curves.csv"
    until(file.exists)
    with file.open(newline="") as lines:
        head, *rows = csv.reader(lines)
    assert head == ["tag", "run", "step", "value"]
    assert rows == [['\'=1,"x"', "train", str(step), f"{step / 8:g}"] for step in range(3)]
