"""Headless Chromium for tests that look at pages."""

import contextlib
import pathlib

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CHROMIUM, DRIVER = pathlib.Path("/usr/bin/chromium"), pathlib.Path("/usr/bin/chromedriver")
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --force-prefers-reduced-motion --window-size=1320,900"""


@contextlib.contextmanager
def chromium(profile):
    """Yield a driver with its profile in a folder; skip the test where Chromium is not installed."""
    if missing := [str(program) for program in (CHROMIUM, DRIVER) if not program.exists()]:
        pytest.skip(f"missing: {', '.join(missing)}")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    try:
        yield driver
    finally:
        driver.quit()
