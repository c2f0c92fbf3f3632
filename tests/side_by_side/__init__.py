"""Runs all tests, the suites side by side: see __main__.py."""
