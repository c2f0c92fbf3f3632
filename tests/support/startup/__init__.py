"""A folder for PYTHONPATH: see sitecustomize.py."""

import pathlib

FOLDER = str(pathlib.Path(__file__).parent)
