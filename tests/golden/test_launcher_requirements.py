"""What the launcher's image installs: what the core and the extra `store` need, each as requirements.lock pins it."""

import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).parents[2]
FILE = ROOT / "images/launcher/requirements.txt"
HEADER = "# Generated from requirements.lock by `make golden`: what the launcher needs, and no more.\n"


def test_the_launcher_image_installs_what_the_lock_pins(golden):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["store"]]
    names = sorted(re.match(r"[\w.-]+", need)[0].lower() for need in needed)
    pins = re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text().strip())
    pinned = {re.match(r"[^=]+", pin)[0]: pin for pin in pins}
    golden(FILE, HEADER + "".join(f"{pinned[name]}\n" for name in names))
