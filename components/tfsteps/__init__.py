"""Distributed TensorFlow jobs as pipeline steps.

Import nothing heavy here: launchers start by importing this package, and their start-up is measured.
"""

__version__ = "0.1.0"
