"""Benchmarks that use parts of the product which no other program uses still run; the page is that of the results."""

import json
import re

from benchmarks import __main__ as program
from benchmarks import usage


def test_the_cpu_of_samples_is_measured():
    (row,) = usage.rows(quick=True)
    assert 0 < row.value < 100


def test_the_page_has_the_results_and_when_each_was_measured():
    results = json.loads(program.RESULTS.read_text())
    machine = re.search(r"Last measured on (.+)\.\n", text := program.PAGE.read_text())
    assert text == program.page(results, machine[1])
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", row["measured"]) for row in results.values())
