"""No modules import each other, imports inside functions included, which the contracts of import-linter do not see."""

import graphlib

from benchmarks.structure import PACKAGES, ROOT, imports_of, parsed


def test_there_are_no_circles_of_imports():
    package = ROOT / PACKAGES
    graphlib.TopologicalSorter(imports_of(package, parsed(package))).prepare()  # its error names a circle
