"""Fetches the packed code of a job, checks its hash and unpacks it: runs in replicas before their program.

It runs with the Python of their image, 3.7 or newer, and needs the standard library alone; for gs://, TensorFlow.
Arguments: the URL of the archive, the SHA-256 of its uncompressed content, and the folder to unpack it in.
"""

import hashlib
import hmac
import http.client
import io
import os
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib

WAITS = (1, 3, 9)  # seconds before a request is repeated
SECONDS = 60  # without an answer
WHOLE_SECONDS = 900  # for the archive with all repetitions: a server may send a byte now and then
LARGEST = 320 << 20  # bytes of an archive, compressed or not; the same as where it is packed


def s3_endpoint(region: str) -> str:
    """Return the address of S3, from the variables of TensorFlow or of AWS's clients."""
    names = ("S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    endpoint = next(filter(None, map(os.environ.get, names)), "https://s3." + region + ".amazonaws.com").rstrip("/")
    scheme = "http" if os.environ.get("S3_USE_HTTPS", "1") in ("0", "false") else "https"
    return endpoint if "://" in endpoint else scheme + "://" + endpoint


def s3_request(url: str, now: str) -> urllib.request.Request:
    """Return the request for an object of S3, signed (AWS Signature Version 4) if there are keys.

    Args:
        url: s3://bucket/key.
        now: The time in UTC, as in 20260131T235959Z.
    """
    bucket, _, key = url[len("s3://") :].partition("/")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    address = s3_endpoint(region) + "/" + bucket + "/" + urllib.parse.quote(key, safe="/-_.~")
    secret = os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not secret:
        return urllib.request.Request(address)  # noqa: S310
    parts = urllib.parse.urlsplit(address)
    nothing = hashlib.sha256(b"").hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": nothing, "x-amz-date": now}
    if os.environ.get("AWS_SESSION_TOKEN"):
        headers["x-amz-security-token"] = os.environ["AWS_SESSION_TOKEN"]
    names = ";".join(headers)  # in the order of the alphabet
    lines = [name + ":" + value for name, value in headers.items()]
    canonical = "\n".join(["GET", parts.path, "", *lines, "", names, nothing])
    scope = [now[:8], region, "s3", "aws4_request"]
    text = ["AWS4-HMAC-SHA256", now, "/".join(scope), hashlib.sha256(canonical.encode()).hexdigest()]
    signing_key = ("AWS4" + secret).encode()
    for word in scope:
        signing_key = hmac.new(signing_key, word.encode(), hashlib.sha256).digest()
    signature = hmac.new(signing_key, "\n".join(text).encode(), hashlib.sha256).hexdigest()
    credential = os.environ.get("AWS_ACCESS_KEY_ID", "") + "/" + "/".join(scope)
    headers["Authorization"] = f"{text[0]} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return urllib.request.Request(address, headers=headers)  # noqa: S310


def read(url: str, deadline: float) -> bytes:
    """Return the content of a URL; no more than LARGEST of it. OSError if there is none, or it takes too long."""
    if url.startswith(("http://", "https://", "s3://", "file://")):
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        request = s3_request(url, now) if url.startswith("s3://") else urllib.request.Request(url)  # noqa: S310
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            content = bytearray()
            while len(content) <= LARGEST:
                block = answer.read1(1 << 16)  # what has arrived, so that the time is looked at
                if not block:
                    break
                content += block
                if time.monotonic() > deadline:
                    raise OSError(f"after {WHOLE_SECONDS} s only {len(content)} bytes have arrived")
            if len(content) <= LARGEST and getattr(answer, "length", None):  # a file has none
                raise http.client.IncompleteRead(bytes(content), answer.length)
            return bytes(content)
    import tensorflow as tf  # noqa: PLC0415  it knows the credentials of Google Cloud

    try:
        with tf.io.gfile.GFile(url, "rb") as file:
            return bytes(file.read(LARGEST))
    except tf.errors.OpError as error:
        raise OSError(error.message) from error


def fetched(url: str, digest: str) -> bytes:
    """Return the uncompressed archive; repeats a request that may succeed later. OSError if it is not there."""
    deadline = time.monotonic() + WHOLE_SECONDS
    for wait in (*WAITS, None):
        try:
            plain = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(
                read(url, deadline), LARGEST
            )  # 16: as gzip
            if hashlib.sha256(plain).hexdigest() != digest:
                raise OSError("its content has another hash than the code of this job")  # noqa: TRY301
        except (OSError, ValueError, http.client.HTTPException, zlib.error) as error:  # such as half of it
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
            if wait is None or refused or time.monotonic() > deadline:
                raise OSError(str(error)) from error
            time.sleep(wait)
        else:
            return plain
    raise AssertionError


def main(url: str, digest: str, folder: str) -> None:
    """Fetch and unpack; exits with a message if that fails."""
    try:
        plain = fetched(url, digest)
    except (OSError, ImportError) as error:
        hint = "if the bucket needs credentials, replicas need them too: AWS_ACCESS_KEY_ID from a Secret in `env`"
        if url.startswith("file://"):
            hint = "launch the job again, which stores it on the claim"
        sys.exit(f"tfsteps: the code {url} cannot be fetched: {error}; {hint}")
    try:
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            archive.extractall(folder, **options)  # type: ignore[arg-type]  # noqa: S202  its hash is that of the job
    except OSError as error:
        sys.exit(f"tfsteps: the code {url} cannot be unpacked in {folder}: {error}; correct that, or set working_dir")


if __name__ == "__main__":
    main(*sys.argv[1:])
