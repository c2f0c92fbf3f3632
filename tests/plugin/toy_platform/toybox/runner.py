"""`python -m toybox.runner FOLDER`: runs the processes of one job, and writes what they print and how they end."""

import pathlib
import signal
import subprocess
import sys
import threading
import time

import msgspec

from tfsteps.runs.events import State
from toybox.platform import Line, Process, Request


def main(folder: pathlib.Path) -> None:
    """Run the job to its end."""
    request = msgspec.json.decode((folder / "request.json").read_bytes(), type=Request)
    lock, stopped = threading.Lock(), threading.Event()
    running: list[subprocess.Popen[str]] = []
    codes: dict[int, int] = {}

    def write(**fields: object) -> None:
        with lock, (folder / "events").open("ab") as events:
            events.write(msgspec.json.encode(Line(time.time(), **fields)) + b"\n")  # type: ignore[arg-type]

    def read(index: int, process: "subprocess.Popen[str]", ours: Process) -> None:
        write(replica=ours.replica)
        assert process.stdout
        for line in process.stdout:
            write(replica=ours.replica, text=line.rstrip("\n"))
        codes[index] = process.wait()
        write(replica=ours.replica, exit_code=codes[index])

    def stop(*_: object) -> None:
        stopped.set()
        for process in running:
            process.terminate()

    signal.signal(signal.SIGTERM, stop)
    threads = []
    for index, ours in enumerate(request.processes):
        process = subprocess.Popen(
            ours.argv, cwd=ours.folder, env=ours.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        running.append(process)
        threads.append(threading.Thread(target=read, args=(index, process, ours)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    failed = next((request.processes[index].replica for index, code in codes.items() if code), None)
    if stopped.is_set():
        write(state=State.CANCELLED)
    elif failed:
        write(state=State.FAILED, replica=failed)
    else:
        write(state=State.SUCCEEDED)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
