"""What a reader meets: no modules that import each other, and a way from a job file to its object that stays short."""

import graphlib

from benchmarks.structure import PACKAGES, ROOT, WALKS, imports_of, parsed, walk

JUMPS = 150
"""Functions entered on that way: docs/design.md, "Size". Lower it with a shorter way; raise it with a reason there."""


def test_there_are_no_circles_of_imports():
    """Those of imports inside functions, too, which the contracts of import-linter do not see."""
    package = ROOT / PACKAGES
    graphlib.TopologicalSorter(imports_of(package, parsed(package))).prepare()  # its error names a circle


def test_the_way_from_a_job_file_to_its_object_does_not_grow():
    jumps = walk(ROOT, WALKS["job file to object"])
    assert jumps is not None
    assert jumps.functions <= JUMPS
