"""How replicas fetch code from a bucket: with the standard library alone, from servers of this machine."""

import os

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.support import s3
from tests.support.code_store import fetch, served
from tfsteps.runs import code_archive
from tfsteps.runs.code_archive import CodeError
from tfsteps.spec import CodeSource
from tfsteps.systems.kubernetes import fetch_code


@pytest.fixture
def source(tmp_path):
    """Return a function from a bucket to the source of a packed folder."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "train.py").write_text("print('shipped')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    digest = code_archive.pack(folder).digest
    return lambda bucket: CodeSource(digest=digest, bucket=bucket)


@pytest.fixture
def bucket(monkeypatch):
    """Yield the variables of a client of an S3 server with a bucket `code`."""
    with s3.served_bucket("code", "127.0.0.1") as (_, endpoint):
        variables = {"S3_ENDPOINT": endpoint, "S3_USE_HTTPS": "0", **s3.VARIABLES}
        for name, text in variables.items():
            monkeypatch.setenv(name, text)
        yield variables


def test_from_a_bucket_of_s3(source, bucket, tmp_path):
    code = source("s3://code/team a+b")
    code_archive.upload(code)
    done = fetch(code, tmp_path / "new", **bucket)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "new" / "train.py").read_text() == "print('shipped')\n"
    assert os.access(tmp_path / "new" / "run.sh", os.X_OK)
    assert fetch(code, tmp_path / "new", **bucket).returncode == 0, "a restart in place"


@pytest.mark.parametrize("token", ["", "of a session"])
def test_the_signature_is_that_of_the_clients_of_aws(monkeypatch, token):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a/secret+key")
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_SESSION_TOKEN", token)
    ours = fetch_code.s3_request("s3://bucket/a folder/ü+~x.tar.gz", "20260131T235959Z")
    assert ours.host == "s3.eu-west-3.amazonaws.com"
    headers = {"X-Amz-Date": "20260131T235959Z", "X-Amz-Content-SHA256": ours.get_header("X-amz-content-sha256")}
    if token:
        headers["X-Amz-Security-Token"] = token
    theirs = AWSRequest("GET", ours.full_url, headers=headers)
    theirs.context["timestamp"] = "20260131T235959Z"
    auth = S3SigV4Auth(Credentials("AKIDEXAMPLE", "a/secret+key", token or None), "s3", "eu-west-3")
    signature = auth.signature(auth.string_to_sign(theirs, auth.canonical_request(theirs)), theirs)
    assert ours.get_header("Authorization").endswith(f"Signature={signature}")
    assert f"SignedHeaders={auth.signed_headers(auth.headers_to_sign(theirs))}, " in ours.get_header("Authorization")


def test_from_an_http_server_which_may_fail_at_first(source, tmp_path):
    with served() as (store, address):
        code = source(f"{address}/code/")
        code_archive.upload(code)
        assert [*store.objects] == [f"/code/{code.digest}.tar.gz"]
        store.failures = [503, 429]
        assert fetch(code, tmp_path / "new", waits="(0, 0)").returncode == 0
        assert (tmp_path / "new" / "train.py").exists()
        store.failures = [200]
        done = fetch(code, tmp_path / "whole", waits="(0,)")
        assert (done.returncode, done.stderr) == (0, ""), "an answer that ended early is not the end"
        store.failures = [200]
        assert "cannot be fetched" in (half := fetch(code, tmp_path / "none").stderr)
        assert "IncompleteRead" in half
        assert "Traceback" not in half
        store.failures = [503, 503, 503]
        assert "HTTP Error 503" in fetch(code, tmp_path / "none", waits="(0, 0)").stderr
        store.failures = [403, 503]
        done = fetch(code, tmp_path / "none", waits="(0, 0)")
        assert done.returncode == 1
        assert f"tfsteps: the code {address}/code/{code.digest}.tar.gz cannot be fetched" in done.stderr
        assert "HTTP Error 403: Forbidden; if the bucket needs credentials" in done.stderr
        assert store.failures == [503], "a refusal is not repeated"
        assert not (tmp_path / "none").exists()
        (tmp_path / "file").write_text("")
        store.failures = []
        done = fetch(code, tmp_path / "file", waits="()")
        assert f"cannot be unpacked in {tmp_path}/file: [Errno 20] Not a directory: " in done.stderr
        assert "credentials" not in done.stderr, "it was fetched"


def test_content_with_another_hash_is_not_unpacked(source, tmp_path):
    with served() as (store, address):
        code = source(f"{address}/code")
        code_archive.upload(code)
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "train.py").write_text("print('another')\n")
        other = code_archive.read(code_archive.pack(tmp_path / "other").digest)
        whole = code_archive.read(code.digest)
        for content in (other, b"no archive", whole[:-20], whole[:20] + bytes(20) + whole[40:]):
            store.objects[f"/code/{code.digest}.tar.gz"] = content
            done = fetch(code, tmp_path / "new")
            assert done.returncode == 1
            assert "cannot be fetched" in done.stderr
            assert "Traceback" not in done.stderr
        store.objects[f"/code/{code.digest}.tar.gz"] = other
        assert "its content has another hash than the code of this job" in fetch(code, tmp_path / "new").stderr
    assert not (tmp_path / "new").exists()


def test_a_server_that_sends_a_byte_now_and_then_is_left(source, monkeypatch, tmp_path):
    with served() as (store, address):
        code = source(f"{address}/code")
        code_archive.upload(code)
        store.failures = [0, 0]
        assert "after 1 s only " in fetch(code, tmp_path / "new", waits="(0, 0)", whole=1).stderr
        assert store.failures == [0], "the time is that of all repetitions"
        moved(monkeypatch, tmp_path)
        monkeypatch.setattr(code_archive, "_WHOLE_SECONDS", 1.0)
        with pytest.raises(CodeError, match=r"after 1 s only .*; correct code\.bucket or the credentials"):
            code_archive.fetch(code)


@pytest.mark.parametrize("largest", [1 << 12, 50])  # of the plain archive, of the compressed one
def test_a_replica_reads_and_unpacks_no_more_than_code_can_have(source, tmp_path, largest):
    with served() as (_, address):
        code = source(f"{address}/code")
        code_archive.upload(code)
        assert "its content has another hash" in fetch(code, tmp_path / "new", largest=largest).stderr


def test_an_upload_that_is_refused_says_what_to_do(source, monkeypatch):
    with served() as (_, address):
        code = source(f"{address}/elsewhere")
        with pytest.raises(CodeError, match=r"HTTP Error 403: Forbidden; the server must allow PUT there without"):
            code_archive.upload(code)
    with pytest.raises(CodeError, match=r"cannot be uploaded to http://127.*Connection refused.*correct code\.bucket"):
        code_archive.upload(code)
    with s3.served_bucket("code", "127.0.0.1") as (_, endpoint):
        for name, text in {"S3_ENDPOINT": f"http://{endpoint}", **s3.VARIABLES}.items():
            monkeypatch.setenv(name, text)
        with pytest.raises(CodeError, match=r"s3://none/.*NoSuchBucket"):
            code_archive.upload(source("s3://none"))


def test_what_another_machine_has_packed_is_not_uploaded():
    assert not code_archive.upload(CodeSource(digest="0" * 64, bucket="http://127.0.0.1:1"))


def moved(monkeypatch, tmp_path):
    """Make this a machine that keeps no archive."""
    monkeypatch.setenv("TFSTEPS_HOME", str(tmp_path / "another"))


@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_machine_without_the_archive_fetches_it(source, bucket, monkeypatch, tmp_path, scheme):
    with served() as (_, address):
        code = source(f"{address}/code" if scheme == "http" else "s3://code/team")
        code_archive.upload(code)
        moved(monkeypatch, tmp_path)
        code_archive.fetch(code)
    code_archive.unpack(code.digest, tmp_path / "new")
    assert (tmp_path / "new" / "train.py").read_text() == "print('shipped')\n"
    code_archive.fetch(code)  # it is kept: nobody is asked


def test_a_machine_keeps_nothing_that_is_not_the_code(source, monkeypatch, tmp_path):
    with served() as (store, address):
        code = source(f"{address}/code")
        code_archive.upload(code)
        moved(monkeypatch, tmp_path)
        store.objects[f"/code/{code.digest}.tar.gz"] = b"no archive"
        with pytest.raises(CodeError, match=r"is damaged: .*; it was fetched from http://"):
            code_archive.fetch(code)
        store.objects.clear()
        with pytest.raises(CodeError, match=r"cannot be fetched from http://.*404.*--set code=FOLDER"):
            code_archive.fetch(code)
    assert not code_archive.kept(code.digest)


@pytest.mark.parametrize("most", [1 << 12, 50])  # of the plain archive, of the compressed one
def test_no_more_is_read_or_unpacked_than_code_can_have(source, monkeypatch, tmp_path, most):
    with served() as (_, address):
        code = source(f"{address}/code")
        code_archive.upload(code)
        moved(monkeypatch, tmp_path)
        monkeypatch.setattr(code_archive, "MOST_ARCHIVE_BYTES", most)
        with pytest.raises(CodeError, match="is damaged"):
            code_archive.fetch(code)


def test_a_machine_that_does_not_keep_the_code_refuses_a_claim():
    code = CodeSource(digest="0" * 64, bucket="pvc://code/team")
    with pytest.raises(
        CodeError, match=r"on a claim, pvc://code/team/0+\.tar\.gz, which this machine cannot read; run it"
    ):
        code_archive.fetch(code)
