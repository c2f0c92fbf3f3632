"""Files that are written whole or not at all."""

import errno
import os
import pathlib
import stat
import subprocess
import sys

import pytest

from tfsteps.whole_file import write_whole


class FullDisk:
    """A file of which a part is written."""

    def __init__(self, file):
        self.file = file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def write(self, data):
        self.file.write(data[:1])
        raise OSError(errno.ENOSPC, "No space left on device")


def fill_disk(monkeypatch):
    """Let no new file be written whole."""
    opened = open

    def open_full(path, mode="r", *args, **more):
        file = opened(path, mode, *args, **more)
        return FullDisk(file) if "x" in mode else file

    monkeypatch.setattr("builtins.open", open_full)


def test_a_full_disk_leaves_the_earlier_file_and_nothing_else(tmp_path, monkeypatch):
    file = tmp_path / "page.html"
    file.write_bytes(b"earlier")
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        write_whole(file, b"later")
    monkeypatch.undo()
    assert [item.name for item in tmp_path.iterdir()] == ["page.html"]
    assert file.read_bytes() == b"earlier"


def test_a_full_disk_leaves_no_part_of_a_new_file(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "page.html", b"later")
    assert list(tmp_path.iterdir()) == []


def test_permissions_and_links_stay(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"earlier")
    file.chmod(0o640)
    link.symlink_to("file")
    write_whole(link, b"later")
    assert link.is_symlink()
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"later", 0o640)


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "all", b"")
        write_whole(tmp_path / "mine", b"", 0o600)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("all", "mine")] == [0o640, 0o600]


def test_a_device_is_written_to_as_it_is():
    device = pathlib.Path(os.devnull)
    write_whole(device, b"text")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_standard_output_is_written_to_although_it_is_a_pipe_without_a_name(tmp_path):
    program = (
        "import pathlib; from tfsteps.whole_file import write_whole; print('a', flush=True); "
        "write_whole(pathlib.Path('/dev/stdout'), b'b'); print('c')"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout == b"a\nbc\n"


def test_other_names_of_a_file_stay(tmp_path):
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_bytes(b"earlier")
    other.hardlink_to(file)
    write_whole(file, b"later")
    assert other.read_bytes() == b"later"


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, b"text")


@pytest.mark.parametrize("at_open", [True, False])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY])
def test_what_cannot_be_replaced_is_written_to(tmp_path, monkeypatch, number, at_open):
    """A file in a folder that is not writable, or of another user in one such as /tmp; or mounted into a container."""
    error = OSError(number, "refused")
    file = tmp_path / "file"
    file.write_bytes(b"earlier")
    opened = open

    def refuse(*_args, **_more):
        raise error

    def open_old(path, mode, *args, **more):
        return refuse() if mode == "xb" else opened(path, mode, *args, **more)

    if at_open:
        monkeypatch.setattr("builtins.open", open_old)
    else:
        monkeypatch.setattr(pathlib.Path, "replace", refuse)
    write_whole(file, b"later")
    monkeypatch.undo()
    assert [item.name for item in tmp_path.iterdir()] == ["file"]
    assert file.read_bytes() == b"later"
    if at_open:
        monkeypatch.setattr("builtins.open", refuse)
        with pytest.raises(OSError, match="refused"):
            write_whole(tmp_path / "new", b"")
