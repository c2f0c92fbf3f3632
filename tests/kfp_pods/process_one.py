"""What runs in a step's container around the step: Argo's executor as process 1, and the KFP launcher as its child.

Neither is of use to a step that is being stopped. The executor passes SIGTERM on to the whole process group and ends
the container soon after its child has ended; the launcher has no handler for it, so it dies at once, and with it the
pipe that is the step's standard output. Arguments: `executor`, seconds that it lingers, then the step's command.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time


def executor(linger, *command):
    program = os.environ["PROCESS_ONE"]
    child = subprocess.Popen([sys.executable, "-c", program, "launcher", *command], start_new_session=True)
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(child.pid, signal.SIGTERM))
    code = child.wait()
    if code < 0:
        time.sleep(float(linger))
    return code if code >= 0 else 128 - code


def launcher(*command):
    outputs = json.loads(command[-1])["outputs"]
    for artifact in outputs["artifacts"].values():
        local(artifact["artifacts"][0]).parent.mkdir(parents=True, exist_ok=True)
    step = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in step.stdout:
        sys.stdout.buffer.write(line)
        sys.stdout.flush()
    if code := step.wait():
        print(f"exit {code}")
        return 1
    written = json.loads(pathlib.Path(outputs["outputFile"]).read_text())
    if missing := outputs["parameters"].keys() - written["parameterValues"].keys():
        print(f"failed to upload output parameters: {missing} were not written")
        return 1
    files = {}
    for name, artifact in written["artifacts"].items():
        if artifact["artifacts"][0]["uri"] != outputs["artifacts"][name]["artifacts"][0]["uri"]:
            print(f"URI of {name} does not have the expected bucket prefix")
            return 1
        file = local(outputs["artifacts"][name]["artifacts"][0])
        files[name] = file.stat().st_size if file.exists() else None
    print("published", json.dumps({**written, "files": files}))
    return 0


def local(artifact):
    return pathlib.Path("/" + artifact["uri"].replace("://", "/"))


if __name__ == "__main__":
    sys.exit({"executor": executor, "launcher": launcher}[sys.argv[1]](*sys.argv[2:]))
