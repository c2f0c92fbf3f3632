"""The baseline of `end_to_exit_ms`: waits for the end of one object with nothing but urllib3, and exits.

python benchmarks/bare_watch.py SERVER POD_FILES PATH NAME
"""

import json
import pathlib
import ssl
import sys

import urllib3


def main(arguments: list[str]) -> None:
    server, folder, path, name = arguments
    tls = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    headers = {"Authorization": f"Bearer {pathlib.Path(folder, 'token').read_text()}"}
    pool = urllib3.PoolManager(ssl_context=tls, headers=headers)
    query = f"?watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}"
    answer = pool.request("GET", f"{server}{path}{query}", preload_content=False, timeout=None)
    rest = b""
    while part := answer.read1(1 << 16):
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            conditions = json.loads(line)["object"].get("status", {}).get("conditions") or []
            if any(item["type"] in ("Succeeded", "Failed") and item["status"] == "True" for item in conditions):
                return


if __name__ == "__main__":
    main(sys.argv[1:])
