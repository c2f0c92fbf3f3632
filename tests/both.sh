#!/usr/bin/env bash
# All tests. First those on a cluster that keep the machine busy; the others there mostly wait, so those without a
# cluster run beside them, and what they say comes at the end.
# Arguments go to pytest. Needs BIN, the folder of pytest, and KUBECONFIG.
set -uo pipefail
busy=(tests/conformance tests/faults)
said=$(mktemp)
beside=
trap '[ -z "$beside" ] || kill "$beside" 2>/dev/null; rm -f "$said"' EXIT
failed=0

ended() { # 5: the arguments choose none of these tests
    [ "$1" = 0 ] || [ "$1" = 5 ] || failed=1
}

"$BIN"/pytest -m cluster "${busy[@]}" "$@"
ended $?
"$BIN"/pytest -m 'not cluster' "$@" > "$said" 2>&1 &
beside=$!
"$BIN"/pytest -m cluster "${busy[@]/#/--ignore=}" "$@"
ended $?
echo 'Those without a cluster, so far:'
while kill -0 "$beside" 2>/dev/null; do
    tail -n 1 "$said" && echo
    sleep 30
done
wait "$beside"
ended $?
beside=
cat "$said"
exit "$failed"
