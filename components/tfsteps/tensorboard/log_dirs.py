"""One log directory for the event files of several runs: a folder of links, each named as TensorBoard shows it."""

import pathlib
from collections.abc import Mapping

from tfsteps.spec import is_uri


def arguments(log_dirs: Mapping[str, str], links: pathlib.Path) -> list[str]:
    """Return the arguments of TensorBoard that make it show some log directories.

    Args:
        log_dirs: Folders or URIs by the name that they get in TensorBoard. A single one may have an empty name: then
            its subfolders are the runs.
        links: Folder for links; it is created if it is needed.

    Raises:
        OSError: The links cannot be created.
    """
    if list(log_dirs) == [""]:
        (log_dir,) = log_dirs.values()
        # The data server reads gs:// too, but not with the credentials of a service account.
        return ["--logdir", log_dir, *(["--load_fast=false"] if is_uri(log_dir) else [])]
    if any(map(is_uri, log_dirs.values())):
        return ["--logdir_spec", ",".join(f"{name}:{log_dir}" for name, log_dir in log_dirs.items())]
    for name, log_dir in log_dirs.items():
        link = links / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(log_dir)
    return ["--logdir", str(links)]
