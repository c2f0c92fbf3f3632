"""The overlays of manifests/, with the permissions that their comments offer."""

import os
import pathlib
import re
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
_OFFERED = re.compile(r"(?m)^# (?=- \.\./\.\./optional/)")


def built(cluster, name, replaced, *, optional=True):
    """Return what kubectl builds of an overlay, with all that is optional in it; `replaced` are words of its file."""
    text, offered = _OFFERED.subn("", source := (ROOT / "manifests/overlays" / name / "kustomization.yaml").read_text())
    assert offered, f"the overlay {name} offers nothing"
    text = text if optional else source
    with tempfile.TemporaryDirectory() as folder:
        overlay = pathlib.Path(folder).resolve()
        text = text.replace("../..", os.path.relpath(ROOT / "manifests", overlay))
        for word, other in replaced.items():
            text = text.replace(word, other)
        (overlay / "kustomization.yaml").write_text(text)
        return cluster.kubectl("kustomize", "--load-restrictor=LoadRestrictionsNone", overlay)
