"""The run report: one HTML file that shows an attempt, readable without a network."""

from tfsteps.report.page import write

__all__ = ["write"]
