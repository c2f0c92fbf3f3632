"""Benchmarks that use parts of the product which no other program uses still run."""

from benchmarks import usage


def test_the_cpu_of_samples_is_measured():
    (row,) = usage.rows(quick=True)
    assert 0 < row.value < 100
