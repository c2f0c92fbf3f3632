"""The body of an answer, in pieces of any size: what comes out of it, and what is no body; and its memory."""

import ctypes
import http.client
import io
import random
import select
import socket
import ssl
import threading

import pytest
import trustme

from tfsteps.kube import connections
from tfsteps.kube.credentials import Access
from tfsteps.kube.stream import Stream, _Chunks, _Length, _UntilClosed


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


class _Allocated(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = tuple((f"field{i}", ctypes.c_size_t) for i in range(10))


def allocated():
    """Return the bytes that this process has allocated with malloc."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Allocated
    return mallinfo().field7


def wait(coroutine):
    """Run a coroutine that waits for sockets only."""
    try:
        awaited = coroutine.send(None)
        while True:
            select.select([awaited.sock], [], [], 5)
            awaited = coroutine.send(True)
    except StopIteration:
        return


@pytest.fixture
def tls_server():
    """Yield the access to a server that answers each request with headers, and then with nothing for as long."""
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            while True:
                connected, _ = listening.accept()
                try:
                    kept.append(context.wrap_socket(connected, server_side=True))
                except OSError:  # the end of the test
                    return
                kept[-1].recv(1 << 16)
                kept[-1].sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        port = listening.getsockname()[1]
        yield Access(f"https://127.0.0.1:{port}", "ns", trust, lambda _refused: "", "the server")
        socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
    for sock in kept:
        sock.close()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="its C library cannot tell what is allocated")
def test_an_open_answer_keeps_no_buffer_to_write(tls_server):
    pool = connections.pool(tls_server)
    streams = [Stream(pool, "/log", {"Host": "server"}) for _ in range(20)]
    for stream in streams:
        wait(stream.begin(5))
    before = allocated()
    for stream in streams:
        stream._sock.send(b"")  # what a buffer is freed by
    freed = before - allocated()
    for stream in streams:
        stream.__exit__()
    assert freed < 20 * 4096
