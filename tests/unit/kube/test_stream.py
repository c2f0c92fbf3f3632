"""The body of an answer, in pieces of any size: what comes out of it, and what is no body."""

import http.client
import io
import random

import pytest

from tfsteps.kube.stream import _Chunks, _Length, _UntilClosed


def chunked(rng, content):
    """Return `content` in chunks as servers send them."""
    sent = b""
    while content:
        size = rng.choice((1, 2, 15, 16, 17, 4096))
        part, content = content[:size], content[size:]
        line = rng.choice(("%x", "%X", "0%x", "%x;name=value", "%x ")) % len(part)
        sent += line.encode() + b"\r\n" + part + b"\r\n"
    return sent + b"0\r\n" + rng.choice((b"", b"X-Trailer: a\r\nB: c\r\n")) + b"\r\n"


def fed(body, sent, rng):
    """Feed a body all that was sent, in pieces; return what came out."""
    came = b""
    while sent and not body.ended:
        size = rng.choice((1, 2, 3, 100, 1 << 16))
        came += body.feed(sent[:size])
        sent = sent[size:]
    return came


@pytest.mark.parametrize("seed", range(200))
def test_chunks_are_what_http_client_makes_of_them(seed):
    rng = random.Random(seed)
    content = rng.randbytes(rng.randrange(20_000))
    sent = chunked(rng, content)

    class Sock:
        def makefile(self, _mode):
            return io.BytesIO(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent)

    theirs = http.client.HTTPResponse(Sock())
    theirs.begin()
    body = _Chunks()
    assert fed(body, sent, rng) == theirs.read() == content
    assert (body.ended, body.keeps) == (True, True)


@pytest.mark.parametrize("seed", range(500))
def test_broken_chunks_end_in_an_error_or_are_waited_for(seed):
    rng = random.Random(seed)
    sent = bytearray(chunked(rng, rng.randbytes(200)))
    for _ in range(rng.randrange(1, 4)):
        sent[rng.randrange(len(sent))] = rng.randrange(256)
    body = _Chunks()
    try:
        fed(body, bytes(sent), rng)
        if not body.ended:
            body.feed(b"")
            pytest.fail("an end without the last chunk was believed")
    except ValueError:
        pass


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n",
        b"-1\r\n",
        b"+1\r\nx\r\n",
        b"0x1\r\nx\r\n",
        b"1_0\r\n",
        b"g\r\n",
        b"1\r\nxy\r\n",
        b"f" * 2000,
        b"<html>\n",
    ],
)
def test_what_is_no_chunk_is_refused(sent):
    with pytest.raises(ValueError, match="chunk"):
        _Chunks().feed(sent)


def test_what_comes_behind_a_body_is_not_for_the_next_answer():
    body, other = _Chunks(), _Length(3)
    assert body.feed(b"1\r\nx\r\n0\r\n\r\nHTTP/1.1 200") == b"x"
    assert other.feed(b"abcdef") == b"abc"
    assert (body.ended, body.keeps, other.ended, other.keeps) == (True, False, True, False)


def test_a_body_of_a_length_and_one_without():
    body = _Length(5)
    assert (body.feed(b"ab"), body.ended) == (b"ab", False)
    with pytest.raises(ValueError, match="3 bytes are missing"):
        body.feed(b"")
    assert (body.feed(b"cde"), body.ended, body.keeps) == (b"cde", True, True)
    other = _UntilClosed()
    assert (other.feed(b"ab"), other.ended) == (b"ab", False)
    assert (other.feed(b""), other.ended, other.keeps) == (b"", True, False)
