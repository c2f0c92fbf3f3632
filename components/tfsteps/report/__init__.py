"""Run reports: HTML files that show an attempt, or a run with all its steps, readable without a network."""

from tfsteps.report.page import write
from tfsteps.report.run_page import has_report, write_run

__all__ = ["has_report", "write", "write_run"]
