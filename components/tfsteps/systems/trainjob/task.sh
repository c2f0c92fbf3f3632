# What the replica of this rank is: sets TF_CONFIG, TFSTEPS_ROLE and TFSTEPS_INDEX, and becomes its program.
# TFSTEPS_ROLES="chief=1:4 worker=2:3 evaluator=1:3": the roles in the order of ranks, with their replicas and how many
# of the arguments are their program, one after the other; without the second number all arguments are everybody's.
set -eu
rank=0 skipped=0 role='' cluster=''
for entry in $TFSTEPS_ROLES; do
  name=${entry%%=*} counts=${entry#*=}
  case $counts in *:*) words=${counts#*:} ;; *) words=0 ;; esac
  first=$rank end=$((rank + ${counts%%:*})) hosts=''
  if [ "$JOB_COMPLETION_INDEX" -ge "$first" ] && [ "$JOB_COMPLETION_INDEX" -lt "$end" ]; then
    role=$name index=$((JOB_COMPLETION_INDEX - first)) skip=$skipped own_words=$words
  fi
  skipped=$((skipped + words))
  while [ "$rank" -lt "$end" ]; do
    hosts="$hosts${hosts:+, }\"$TFSTEPS_JOB-node-0-$rank.$TFSTEPS_JOB.$TFSTEPS_NAMESPACE.svc:2222\""
    rank=$((rank + 1))
  done
  [ "$name" = evaluator ] || cluster="$cluster${cluster:+, }\"$name\": [$hosts]"
done
if [ -z "$role" ]; then
  echo "rank $JOB_COMPLETION_INDEX has no role: TFSTEPS_ROLES is '$TFSTEPS_ROLES'" >&2
  exit 2
fi
export TFSTEPS_ROLE="$role" TFSTEPS_INDEX="$index"
export TF_CONFIG="{\"cluster\": {$cluster}, \"task\": {\"type\": \"$role\", \"index\": $index}, \"environment\": \"cloud\"}"
if [ "$own_words" -gt 0 ]; then
  shift "$skip"
  place=0
  for word; do
    shift
    [ "$place" -ge "$own_words" ] || set -- "$@" "$word"
    place=$((place + 1))
  done
fi
if [ -n "${TFSTEPS_WORKING_DIR:-}" ]; then cd "$TFSTEPS_WORKING_DIR"; fi
exec "$@"
