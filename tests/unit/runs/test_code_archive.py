"""Which files of a folder are packed, that the same files give the same archive, and what is refused."""

import io
import os
import pathlib
import subprocess
import tarfile
import time

import pytest

from tfsteps.runs import code_archive
from tfsteps.runs.code_archive import CodeError, from_text, pack, read, resolve, to_text, unpack
from tfsteps.spec import CodeSource


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text("print(1)\n")
    return folder


def put(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(packed):
    with tarfile.open(fileobj=io.BytesIO(read(packed.digest))) as tar:
        return tar.getnames()


def write(path, text="x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_same_files_are_the_same_archive_on_every_machine(folder, tmp_path):
    write(folder / "b" / "z.py")
    first = pack(folder)
    copy = tmp_path / "copy"
    for name in ("b/z.py", "train.py"):  # in another order, at another time, with other permissions
        write(copy / name, (folder / name).read_text())
        (copy / name).chmod(0o600)
        os.utime(copy / name, (1, 1))
    second = pack(copy)
    assert (first.digest, names(first)) == (second.digest, ["b/z.py", "train.py"])
    with tarfile.open(fileobj=io.BytesIO(read(second.digest))) as tar:
        assert {(member.mtime, member.uid, member.mode) for member in tar} == {(0, 0, 0o644)}
    write(copy / "train.py", "print(2)\n")
    assert pack(copy).digest != first.digest


def test_what_git_ignores_is_left_out(folder):
    (folder.parent / ".git").mkdir()
    write(folder.parent / ".gitignore", "*.ckpt\n/program/runs/\n")
    write(folder / ".gitignore", "data/\n!keep.ckpt\n")
    write(folder / "sub" / ".gitignore", "*.log\n!data/\n")
    for name in ("a.ckpt", "keep.ckpt", "runs/x", "data/x", "sub/data/y", "sub/a.log", "b.log"):
        write(folder / name)
    packed = pack(folder)
    assert names(packed) == [
        ".gitignore", "b.log", "keep.ckpt", "sub/.gitignore", "sub/data/y", "train.py",
    ]  # fmt: skip
    assert packed.left_out == (
        "a.ckpt (.gitignore)",
        "data/ (.gitignore)",
        "runs/ (.gitignore)",
        "sub/a.log (.gitignore)",
    )


def test_git_agrees(folder):
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    write(folder / ".gitignore", "*.o\n!/lib/keep.o\nbuild\n/top\n**/deep/*.txt\nfoo/**\n")
    for name in ("a.o", "lib/keep.o", "lib/b.o", "build/x", "s/build/x", "top", "s/top", "s/deep/a.txt", "s/deep/a.md"):
        write(folder / name)
    write(folder / "foo" / "x")
    git = ["git", "-C", str(folder), "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.split()
    assert names(pack(folder)) == sorted(listed)


def test_gitignore_above_a_folder_that_is_in_no_repository_does_not_count(folder):
    write(folder.parent / ".gitignore", "*.py\n")
    assert names(pack(folder)) == ["train.py"]


def test_version_control_secrets_and_caches_are_left_out_whatever_gitignore_says(folder):
    write(folder / ".gitignore", "!.env\n!.git\n")
    for name in (".git/config", "sub/.git", ".env", ".env.local", "key.pem", ".aws/credentials", "__pycache__/a.pyc"):
        write(folder / name)
    packed = pack(folder)
    assert names(packed) == [".gitignore", "train.py"]
    assert ".env (may hold a secret)" in packed.left_out
    assert ".git/ (version control)" in packed.left_out


def test_records_in_the_folder_are_left_out_and_the_hash_stays_the_same(folder, monkeypatch):
    monkeypatch.setenv("TFSTEPS_HOME", str(folder / "state" / "tfsteps"))
    write(folder / ".tfstepsignore", "!tfsteps\n")
    write(folder / "state" / "mine")
    first, second = pack(folder), pack(folder)
    assert names(second) == [".tfstepsignore", "state/mine", "train.py"]
    assert first.digest == second.digest
    assert second.left_out == ("state/tfsteps/ (records of runs)",)


def test_tfstepsignore_goes_before_gitignore_and_includes_what_is_meant(folder):
    write(folder / ".gitignore", "*.csv\n")
    write(folder / ".tfstepsignore", "!small.csv\n!.env\nnotes/\n!.git\n")
    for name in ("small.csv", "big.csv", ".env", "notes/a", ".git/config"):
        write(folder / name)
    assert names(pack(folder)) == [".env", ".gitignore", ".tfstepsignore", "small.csv", "train.py"]


def test_links_stay_links_inside_and_lead_nowhere_else(folder, tmp_path):
    write(folder / "lib" / "a.py", "A = 1\n")
    (folder / "link.py").symlink_to(folder / "lib" / "a.py")  # absolute: another machine has no such folder
    (folder / "dir").symlink_to("lib")
    (folder / "data").symlink_to(tmp_path)
    (folder / "lost").symlink_to("nothing")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    packed = pack(folder)
    assert packed.left_out == (
        "data (link that leads out of the folder)", "loop (broken link)", "lost (broken link)",
        "pipe (not a regular file)",
    )  # fmt: skip
    unpack(packed.digest, there := tmp_path / "there")
    assert (there / "link.py").read_text() == (there / "dir" / "a.py").read_text() == "A = 1\n"
    assert (there / "link.py").readlink() == pathlib.Path("lib/a.py")


def test_programs_stay_executable(folder, tmp_path):
    write(folder / "run.sh", "#!/bin/sh\necho ran\n")
    (folder / "run.sh").chmod(0o700)
    unpack(pack(folder).digest, tmp_path / "there")
    assert subprocess.run([tmp_path / "there" / "run.sh"], capture_output=True, check=True).stdout == b"ran\n"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none", "does not exist: name the folder of the program"),
        (lambda folder: folder / "train.py", "is not a folder"),
        (lambda folder: folder / "empty", "has no files to ship: left out: .env (may hold a secret)"),
    ],
)
def test_no_folder_of_files_is_refused(folder, make, message):
    write(folder / "empty" / ".env")
    with pytest.raises(CodeError, match=message.replace("(", r"\(").replace(")", r"\)")):
        pack(make(folder))


def test_too_much_is_refused_with_the_largest_files_before_it_is_compressed(folder):
    with (folder / "train.npz").open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(CodeError, match=r"2 files of 307201 KiB.*largest: train.npz \(307200 KiB\), .*\.tfstepsignore"):
        pack(folder)


def test_a_digest_is_the_files_as_they_were(folder):
    source, packed = resolve(CodeSource(), folder)
    assert (source.digest, packed.files) == (packed.digest, 1)
    write(folder / "train.py", "changed")
    assert resolve(source, folder) == (source, None)


def test_an_archive_that_is_not_here_or_damaged_is_not_used(folder, home):
    with pytest.raises(CodeError, match="is not kept on this machine; launch it from its folder"):
        read("0" * 64)
    digest = pack(folder).digest
    kept = home / "code" / f"{digest}.tar.gz"
    kept.write_bytes(kept.read_bytes()[:-9])
    with pytest.raises(CodeError, match="is damaged"):
        unpack(digest, folder / "there")


def test_archives_that_no_launch_has_read_for_long_are_removed(folder, home):
    first = pack(folder).digest
    used = home / "code" / f"{first}.tar.gz"
    old = time.time() - 91 * 86400
    os.utime(used, (old, old))
    read(first)  # is a use
    write(folder / "train.py", "2")
    second = pack(folder).digest
    assert used.exists()
    os.utime(used, (old, old))
    write(folder / "train.py", "3")
    third = pack(folder).digest
    assert sorted(path.name for path in (home / "code").iterdir()) == sorted(f"{it}.tar.gz" for it in (second, third))


def test_text_carries_an_archive_to_another_machine(folder, monkeypatch, tmp_path):
    text = to_text(digest := pack(folder).digest)
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "other"))
    assert from_text(text) == digest
    unpack(digest, tmp_path / "there")
    assert (tmp_path / "there" / "train.py").read_text() == "print(1)\n"


def test_text_is_bounded_and_must_be_whole(folder):
    (folder / "weights").write_bytes(os.urandom(100_000))
    digest = pack(folder).digest
    with pytest.raises(CodeError, match=r"takes at most 48 KiB; the largest files: weights \(98 KiB\)"):
        to_text(digest)
    for text in (".", "0" * 64 + ":", f"{digest}:YWJj", f"{digest}:?"):
        with pytest.raises(CodeError):
            from_text(text)


def test_a_file_that_cannot_be_read_is_named(folder, monkeypatch):
    def fail(*_):
        raise PermissionError(13, "Permission denied", "train.py")

    monkeypatch.setattr(code_archive, "_tar", fail)
    with pytest.raises(
        CodeError, match=r"cannot be packed: .*train.py'; make it readable, or list it in .tfstepsignore"
    ):
        pack(folder)


def test_a_file_that_is_deleted_while_its_folder_is_packed_is_named(folder, monkeypatch):
    monkeypatch.setattr(code_archive, "_check_size", lambda *_: (folder / "train.py").unlink())
    with pytest.raises(
        CodeError, match=r"train.py was deleted while its folder was read; retry when no program writes"
    ):
        pack(folder)


def test_code_in_a_bucket_need_not_be_kept_here():
    source = CodeSource(digest="0" * 64, bucket="s3://code")
    assert resolve(source, pathlib.Path()) == (source, None)
    with pytest.raises(CodeError, match="is not kept on this machine"):
        resolve(CodeSource(digest="0" * 64), pathlib.Path())


@pytest.mark.parametrize("pattern", ["!", "\\", "a\\", "[z-a]"])
def test_a_pattern_that_is_none_is_named_with_its_line(folder, pattern):
    write(folder / ".gitignore", f"# first\n{pattern}\n*.o\n")
    with pytest.raises(CodeError) as caught:
        pack(folder)
    assert f"{folder}/.gitignore:2: {pattern!r} is no pattern; correct or remove it" in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_a_pattern(folder):
    (folder / ".gitignore").write_bytes(b"\xef\xbb\xbftrain.npz\r\n")
    write(folder / "train.npz")
    write(folder / "sub" / ".gitignore" / "file")  # a folder of that name has no patterns, as for git
    assert names(pack(folder)) == [".gitignore", "sub/.gitignore/file", "train.py"]


def test_folders_without_end_are_refused(folder):
    deep = folder
    for _ in range(202):
        deep = deep / "d"
    write(deep / "file")
    with pytest.raises(CodeError, match="nested more than 200 levels deep: d/d/"):
        pack(folder)
    write(folder / ".tfstepsignore", "/d\n")
    assert names(pack(folder)) == [".tfstepsignore", "train.py"]


def test_files_without_end_are_not_listed_to_the_last(folder, monkeypatch):
    monkeypatch.setattr(code_archive, "_MOST_FILES", 3)
    monkeypatch.setattr(code_archive, "_COUNTED", 6)
    for number in range(9):
        write(folder / f"{number}.py")
    with pytest.raises(CodeError, match="has at least 6 files of 1 KiB; at most 3 of"):
        pack(folder)
