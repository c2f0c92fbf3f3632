"""Coroutines on a few threads: what they wait for comes, in time, and nothing of them is left at the end."""

import socket
import threading
import time

import pytest

from tests.support.waiting import until
from tfsteps.kube import event_loop
from tfsteps.kube.event_loop import EventLoop, pause, readable


@pytest.fixture
def loop():
    loop = EventLoop()
    yield loop
    loop.close()
    until(lambda: not [item for item in threading.enumerate() if item.name in {"event loop", "worker 1"}])


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_a_task_goes_on_when_its_socket_has_something_to_read(loop, pair):
    ours, theirs = pair
    heard = []

    async def listen():
        while await readable(ours, 60):
            if not (part := ours.recv(10)):
                break
            heard.append(part)
        heard.append("end")

    loop.run(listen(), heard.append)
    for i in range(100):
        theirs.send(b"%d" % i)
        until(lambda i=i: len(heard) == i + 1)
    theirs.close()
    until(lambda: heard[-1] == "end")


def test_a_silent_socket_is_awaited_until_its_timeout(loop, pair):
    results = []

    async def listen():
        began = time.monotonic()
        results.append(await readable(pair[0], 0.3))
        results.append(time.monotonic() - began)
        results.append(await readable(pair[0], 60))

    loop.run(listen(), results.append)
    until(lambda: len(results) == 2)
    assert results[0] is False
    assert results[1] >= 0.3
    pair[1].send(b"x")
    until(lambda: results[2:] == [True])


def test_a_pause_ends_when_its_task_is_woken_even_if_that_was_before(loop):
    results = []
    go = threading.Event()

    async def sleep():
        go.wait()
        results.append(await pause(60))
        results.append(await pause(0.05))
        results.append(await pause(60))

    task = loop.run(sleep(), results.append)
    task.wake()
    go.set()
    until(lambda: len(results) == 2)
    assert results == [True, False]
    task.wake()
    until(lambda: len(results) == 3)
    assert results == [True, False, True]


def test_a_task_that_is_woken_is_not_disturbed_in_its_wait_for_a_socket(loop, pair):
    results = []

    async def listen():
        results.append("waits")
        results.append(await readable(pair[0], 60))
        results.append(await pause(60))

    task = loop.run(listen(), results.append)
    until(lambda: results)
    task.wake()
    time.sleep(0.2)
    assert results == ["waits"]
    pair[1].send(b"x")
    until(lambda: results == ["waits", True, True])


def test_calls_come_later_in_their_order(loop):
    called = []
    for seconds in (0.2, 0.1, 0.0):
        loop.call_later(seconds, lambda seconds=seconds: called.append(seconds))
    until(lambda: called == [0.0, 0.1, 0.2])


def test_an_exception_of_a_task_is_reported(loop):
    results = []

    async def fail():
        await pause(0)
        raise ValueError("no")

    loop.run(fail(), results.append)
    until(lambda: results == ["ValueError: no"])


def test_thousands_of_waits_take_a_few_threads_and_no_more_timers_than_tasks(loop):
    ended = []

    async def turns(number):
        for _ in range(20):
            await pause(0.001 * (number % 5))
        ended.append(number)

    before = threading.active_count()
    for number in range(2000):
        loop.run(turns(number), ended.append)
    assert threading.active_count() <= before + event_loop._WORKERS + 1
    until(lambda: len(ended) == 2000)
    assert sorted(ended) == list(range(2000))
    assert len(loop._timers) <= 2 * 2000


def test_a_wait_that_is_begun_again_and_again_keeps_one_timer(loop, pair):
    ours, theirs = pair
    heard = []

    async def listen():
        while await readable(ours, 3600):
            heard.append(ours.recv(1))

    loop.run(listen(), heard.append)
    for i in range(200):
        theirs.send(b"x")
        until(lambda i=i: len(heard) > i)
    assert len(loop._timers) == 1


@pytest.mark.parametrize("workers", [1, 3])
def test_a_loop_that_is_closed_closes_what_waits_and_what_runs(pair, workers):
    loop, closed, begun, go = EventLoop(), [], threading.Event(), threading.Event()

    async def waits(what):
        try:
            await what
        finally:
            closed.append("waited")

    async def runs():
        try:
            begun.set()
            go.wait()
            await pause(60)
        finally:
            closed.append("ran")

    for waiting, coroutine in enumerate((waits(readable(pair[0], 60)), waits(pause(60)), runs())):
        until(lambda waiting=waiting: sum(task.waits is not None for task in loop._tasks) == waiting)
        if waiting:
            until(lambda: loop._idle.acquire(blocking=False))
            if workers == 1:  # else the next task gets a worker of its own
                loop._idle.release()
        loop.run(coroutine, closed.append)
    begun.wait()  # one that has not begun has nothing to end
    assert loop._workers == workers
    loop.close()
    until(lambda: closed == ["waited", "waited"])
    go.set()
    until(lambda: closed == ["waited", "waited", "ran"])
    loop.close()
    assert not loop._tasks
