"""Stand-in for distributed training without TensorFlow: obeys TF_CONFIG, standard library only, starts in 0.2 s.

Real TCP between the tasks on the addresses in TF_CONFIG, checkpoints, TensorBoard event files, injected failures.

    no `ps` in the cluster   synchronous: the chief (or worker 0) averages all replicas' gradients in every step; one lost peer
                             makes every task exit 1, and a restart goes on from the checkpoint
    `ps` in the cluster      asynchronous: ps tasks hold the weights, workers pull and push; a lost worker is tolerated,
                             a lost ps is waited for
    evaluator                not in the cluster; follows the checkpoint, exits 0 after the last step, 3 when idle

Unlike TensorFlow it notices a lost peer at once, obeys SIGTERM (exit 143), and its ps ends by itself. A supervisor that is
only ever tested with this program has not met what TensorFlow does (tensorflow.md).

Environment:
    TFSTEPS_OUTPUT_DIR  folder that all tasks share; gets ckpt.json, model.json, logs/
    EPOCHS        number of epochs (default 3)
    STEPS         steps per epoch (default 20)
    STEP_SLEEP    seconds to wait after each step (default 0)
    RESUME        not empty: go on from OUT/ckpt.json
    PEER_TIMEOUT  seconds to wait for a peer or a checkpoint before giving up (default 60)
    FAIL_AT       step before which one task kills itself with SIGKILL, once per OUT
    FAIL_TASK     which one (default worker-1)
    FAIL_CODE     exit code that it ends with, in place of SIGKILL
    FAIL_TIMES    how often per OUT (default 1)
    Before training:
    PRINT_LINES   number of lines to print, each with its number
    PRINT_BYTES   length of one further line
    PRINT_BINARY  not empty: print a line of every byte but the line's end
    MEMORY        MiB to fill
    IGNORE_SIGTERM, HANG  not empty: do so, the second for ever
"""

import json
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from event_writer import ScalarWriter

START = time.monotonic()
OUT = os.environ["TFSTEPS_OUTPUT_DIR"]
EPOCHS = int(os.environ.get("EPOCHS", "3"))
STEPS = int(os.environ.get("STEPS", "20"))
STEP_SLEEP = float(os.environ.get("STEP_SLEEP", "0"))
RESUME = bool(os.environ.get("RESUME"))
PEER_TIMEOUT = float(os.environ.get("PEER_TIMEOUT", "60"))
FAIL_AT = os.environ.get("FAIL_AT")
FAIL_TASK = os.environ.get("FAIL_TASK", "worker-1")
FAIL_CODE = os.environ.get("FAIL_CODE")
FAIL_TIMES = int(os.environ.get("FAIL_TIMES", "1"))
LAST_STEP = EPOCHS * STEPS
CHECKPOINT = f"{OUT}/ckpt.json"
LEARNING_RATE = 0.1
FEATURES = 8
BATCH = 32

CONFIG = json.loads(os.environ.get("TF_CONFIG") or "{}")
CLUSTER = CONFIG.get("cluster", {})
ROLE = CONFIG.get("task", {}).get("type", "worker")
INDEX = int(CONFIG.get("task", {}).get("index", 0))
NAME = f"{ROLE}-{INDEX}"


def log(*parts):
    print(f"{time.monotonic() - START:5.1f}", *parts, flush=True)


# --- the model: FEATURES weights and a bias, in one list


def batch(replica, step):
    """Return inputs and targets that depend on (replica, step) alone, so that a resumed run sees the same data."""
    source = random.Random(f"{replica}/{step}")
    inputs = [[source.random() for _ in range(FEATURES)] for _ in range(BATCH)]
    return inputs, [sum(row) for row in inputs]


def gradient_and_loss(weights, inputs, targets):
    gradient, loss = [0.0] * len(weights), 0.0
    for row, target in zip(inputs, targets):
        error = sum(w * x for w, x in zip(weights, row)) + weights[-1] - target
        loss += error * error / len(inputs)
        for j, x in enumerate([*row, 1.0]):
            gradient[j] += 2 * error * x / len(inputs)
    return gradient, loss


def descend(weights, gradient):
    return [w - LEARNING_RATE * g for w, g in zip(weights, gradient)]


def save(weights, step):
    with open(f"{CHECKPOINT}.tmp", "w") as file:
        json.dump({"w": weights, "step": step}, file)
    os.replace(f"{CHECKPOINT}.tmp", CHECKPOINT)


def read_checkpoint():
    try:
        with open(CHECKPOINT) as file:
            saved = json.load(file)
        return saved["w"], saved["step"]
    except FileNotFoundError:
        return None


def initial_state():
    return (RESUME and read_checkpoint()) or ([0.0] * (FEATURES + 1), 0)


def end_epoch(writer, weights, step, loss):
    writer.scalar("loss", loss, step)
    save(weights, step)
    log(f"epoch {step // STEPS} loss {loss:.6f}")


def export(weights):
    with open(f"{OUT}/model.json", "w") as file:
        json.dump({"w": weights}, file)
    log(f"done wsum {sum(weights[:-1]):.9f}")


def maybe_fail(step):
    if not FAIL_AT or step != int(FAIL_AT) or NAME != FAIL_TASK:
        return
    marker = f"{OUT}/failed"
    if os.path.exists(marker) and os.path.getsize(marker) >= FAIL_TIMES:
        return
    with open(marker, "a") as file:
        file.write(".")
    log("injected failure")
    if FAIL_CODE:
        os._exit(int(FAIL_CODE))
    os.kill(os.getpid(), signal.SIGKILL)


# --- talking: one JSON object per line


class Peer:
    def __init__(self, connection):
        connection.settimeout(PEER_TIMEOUT)
        self._connection = connection
        self._lines = connection.makefile("r")

    @classmethod
    def dial(cls, address):
        """Connect, waiting for the peer to come up."""
        host, port = address.rsplit(":", 1)
        give_up = time.monotonic() + PEER_TIMEOUT
        while True:
            try:
                return cls(socket.create_connection((host, int(port)), 5))
            except OSError:
                if time.monotonic() > give_up:
                    log("no answer from", address)
                    os._exit(1)
                time.sleep(0.1)

    def send(self, **message):
        self._connection.sendall((json.dumps(message) + "\n").encode())

    def receive(self):
        line = self._lines.readline()
        if not line.endswith("\n"):
            raise ConnectionError("peer lost")
        return json.loads(line)


def listen(address):
    """Listen on the port of `address` on every interface, as TensorFlow's servers do."""
    return socket.create_server(("", int(address.rsplit(":", 1)[1])), backlog=64)


# --- the roles


class Replica:
    """A task that computes gradients: every chief and worker. Replica 0 leads: it saves, logs and exports."""

    def __init__(self):
        members = [
            (role, i, address) for role in ("chief", "worker") for i, address in enumerate(CLUSTER.get(role, []))
        ]
        self.members = members or [("worker", 0, None)]
        self.rank = next(r for r, member in enumerate(self.members) if member[:2] == (ROLE, INDEX))
        self.leads = self.rank == 0
        self.writer = ScalarWriter(os.environ["TFSTEPS_LOG_DIR"]) if self.leads else None

    def train_sync(self):
        weights, step = initial_state()
        peers = []
        if self.leads:
            peers = self.wait_for_followers()
            for peer in peers:
                peer.send(w=weights, step=step)
        else:
            self.listener = listen(self.members[self.rank][2])  # unused, but the port must be ours, as in TensorFlow
            leader = Peer.dial(self.members[0][2])
            leader.send(rank=self.rank)
            state = leader.receive()
            weights, step = state["w"], state["step"]
        log("replicas", len(self.members), "from step", step)
        while step < LAST_STEP:
            maybe_fail(step)
            gradient, loss = gradient_and_loss(weights, *batch(self.rank, step))
            if self.leads:
                gradient, loss = self.average([(gradient, loss), *(peer.receive()["g"] for peer in peers)])
                weights = descend(weights, gradient)
                for peer in peers:
                    peer.send(w=weights)
            else:
                leader.send(g=[gradient, loss])
                weights = leader.receive()["w"]
            step += 1
            time.sleep(STEP_SLEEP)
            if self.leads and step % STEPS == 0:
                end_epoch(self.writer, weights, step, loss)
        if self.leads:
            export(weights)

    def wait_for_followers(self):
        """Accept all other replicas; return them ordered by rank, so that sums are always taken in the same order."""
        if len(self.members) == 1:
            return []
        server = listen(self.members[0][2])
        server.settimeout(PEER_TIMEOUT)
        peers = {}
        while len(peers) < len(self.members) - 1:
            peer = Peer(server.accept()[0])
            peers[peer.receive()["rank"]] = peer
        return [peers[rank] for rank in sorted(peers)]

    @staticmethod
    def average(results):
        gradients, losses = zip(*results)
        return [sum(column) / len(results) for column in zip(*gradients)], sum(losses) / len(results)

    def train_async(self):
        servers = ServerPool()
        weights, step = servers.ask()
        log("worker", NAME, "from step", step)
        next_save = (step // STEPS + 1) * STEPS
        own_step = 0
        while step < LAST_STEP:
            maybe_fail(step)
            gradient, loss = gradient_and_loss(weights, *batch(self.rank, own_step))
            own_step += 1
            weights, step = servers.ask(g=gradient)
            time.sleep(STEP_SLEEP)
            if self.leads and step >= next_save:
                end_epoch(self.writer, weights, step, loss)
                next_save = (step // STEPS + 1) * STEPS
        if self.leads:
            end_epoch(self.writer, weights, step, gradient_and_loss(weights, *batch(self.rank, 0))[1])
            export(weights)
        servers.ask(bye=NAME)


class ServerPool:
    """A worker's view of all ps tasks. A lost one is dialled again until it is back."""

    def __init__(self):
        self.peers = {}

    def ask(self, **message):
        weights, step = [0.0] * (FEATURES + 1), 0
        for i, address in enumerate(CLUSTER["ps"]):
            answer = self.ask_one(i, address, message)
            for j, value in answer["w"].items():
                weights[int(j)] = value
            step = answer["step"] if i == 0 else step
        return weights, step

    def ask_one(self, i, address, message):
        while True:
            try:
                if i not in self.peers:
                    self.peers[i] = Peer.dial(address)
                self.peers[i].send(**message)
                return self.peers[i].receive()
            except (ConnectionError, OSError):
                self.peers.pop(i, None)
                time.sleep(0.2)


class ParameterServer:
    """Holds every len(ps)-th weight; ends when each replica has said bye."""

    def __init__(self):
        weights, self.step = initial_state()
        self.weights = {j: weights[j] for j in range(INDEX, len(weights), len(CLUSTER["ps"]))}
        self.lock = threading.Lock()
        self.gone = set()

    def serve(self):
        server = listen(CLUSTER["ps"][INDEX])
        log("serving", NAME)
        threading.Thread(target=self.accept, args=(server,), daemon=True).start()
        replicas = sum(len(CLUSTER.get(role, [])) for role in ("chief", "worker"))
        while len(self.gone) < replicas:
            time.sleep(0.05)
        time.sleep(0.2)  # let the last answer out
        log("all workers done")

    def accept(self, server):
        while True:
            threading.Thread(target=self.answer, args=(Peer(server.accept()[0]),), daemon=True).start()

    def answer(self, peer):
        try:
            while True:
                message = peer.receive()
                with self.lock:
                    if "g" in message:
                        self.step += 1
                        for j in self.weights:
                            self.weights[j] -= LEARNING_RATE * message["g"][j]
                    if "bye" in message:
                        self.gone.add(message["bye"])
                    peer.send(w=self.weights, step=self.step)
        except (ConnectionError, OSError):
            return  # a lost worker is tolerated


def evaluate():
    writer = ScalarWriter(os.environ["TFSTEPS_LOG_DIR"] + "/eval")
    data = batch(99, 0)
    seen = None
    give_up = time.monotonic() + PEER_TIMEOUT
    while time.monotonic() < give_up:
        saved = read_checkpoint()
        if saved and saved[1] != seen:
            weights, seen = saved
            give_up = time.monotonic() + PEER_TIMEOUT
            loss = gradient_and_loss(weights, *data)[1]
            writer.scalar("loss", loss, seen)
            log("eval step", seen, f"loss {loss:.6f}")
            if seen >= LAST_STEP:
                log("evaluator done")
                return 0
        time.sleep(0.05)
    log("no new checkpoint")
    return 3


def on_sigterm(*_):
    log("SIGTERM")
    if not os.environ.get("IGNORE_SIGTERM"):
        os._exit(143)


def misbehave():
    out = sys.stdout.buffer
    for number in range(int(os.environ.get("PRINT_LINES", "0"))):
        out.write(b"line %d\n" % number)
    if length := int(os.environ.get("PRINT_BYTES", "0")):
        out.write(b"x" * length + b"\n")
    if os.environ.get("PRINT_BINARY"):
        out.write(bytes(value for value in range(256) if value != 10) + b"\n")
    out.flush()
    memory = b"x" * (int(os.environ.get("MEMORY", "0")) << 20)
    while os.environ.get("HANG"):
        time.sleep(1)
    return len(memory)


def main():
    os.makedirs(OUT, exist_ok=True)
    signal.signal(signal.SIGTERM, on_sigterm)
    misbehave()
    if ROLE == "evaluator":
        return evaluate()
    try:
        if ROLE == "ps":
            ParameterServer().serve()
        elif "ps" in CLUSTER:
            Replica().train_async()
        else:
            Replica().train_sync()
    except (ConnectionError, OSError) as error:
        log("peer failure:", repr(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
