"""Runs test controllers: `run NAME...` here, `up NAME...` as Deployments of the cluster, `down` takes them away."""

import argparse
import logging
import threading
import traceback
from collections.abc import Callable

from tests.controllers import t9k, t9k_boards, tfjob_v1alpha1
from tests.controllers.loop import give_up
from tfsteps.kube import access
from tfsteps.kube.client import Api

CONTROLLERS = {"t9k": [t9k.run, t9k_boards.run], "tfjob-v1alpha1": [tfjob_v1alpha1.run]}


def run(names: list[str]) -> None:
    """Run controllers in this process, until it is ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    for item in [one for name in names for one in CONTROLLERS[name]]:
        threading.Thread(target=_run, args=[item], daemon=True).start()
    threading.Event().wait()


def _run(controller: Callable[[Api], None]) -> None:
    try:
        controller(Api(access.find()))
    except Exception:  # noqa: BLE001  a thread's end would not be noticed
        give_up(traceback.format_exc())


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="controllers", description=__doc__)
    parser.add_argument("action", choices=["run", "up", "down"])
    parser.add_argument("names", nargs="*", default=list(CONTROLLERS), help=f"of {', '.join(CONTROLLERS)}; none = all")
    args = parser.parse_args()
    if unknown := set(args.names) - CONTROLLERS.keys():
        parser.error(f"there is no {', '.join(unknown)}")
    if args.action == "run":
        run(args.names)
        return
    from tests.controllers import install  # noqa: PLC0415  not in the image

    install.up(args.names) if args.action == "up" else install.down()


if __name__ == "__main__":
    main()
