"""Prints a million lines of 100 bytes, and writes the seconds that this took into the file that its argument names."""

import pathlib
import sys
import time

line = "x" * 99
start = time.perf_counter()
for _ in range(1_000_000):
    print(line)
pathlib.Path(sys.argv[1]).write_text(f"{time.perf_counter() - start}")
