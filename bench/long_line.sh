#!/usr/bin/env bash
# A file that is one line of so many gigabytes (10 by default), put from a pipe and given to a job, on a cluster of its own. The attempts at its
# line must fail with cause, file and offset, the job within a bound of time and without an output directory, the workers' own memory must stay
# flat, and a job beside it must not be harmed. Usage: bench/long_line.sh [HANNO-BINARY] [EXAMPLES] [GIGABYTES]. Takes the file's size on disk, once.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
hanno=$(realpath "${1:-$root/target/release/hanno}")
examples=$(realpath "${2:-$root/target/release/examples}")
gigabytes=${3:-10}
# Four attempts read the longest line there may be, 1 GiB, each; the other maps read their splits once.
seconds_max=$((120 + 30 * gigabytes))
grown_max_kib=$((64 * 1024))
work=$(mktemp -d "${TMPDIR:-/tmp}/hanno-long-line-XXXXXX")
port_base=${HANNO_BENCH_PORT_BASE:-21850}
. "$root/bench/cluster.sh"
finish() {
    [ -z "${watch:-}" ] || kill "$watch" 2>/dev/null || true
    end_cluster
    rm -rf "$work"
}
trap finish EXIT
begin_cluster "$hanno" "$work" --port-base "$port_base"
export HANNO_BIN="$hanno"
cd "$work"
fail() { echo "$*"; cat job.err; exit 1; }

begin=$SECONDS
head -c "$((gigabytes << 30))" /dev/zero | tr '\0' x | "$hanno" dfs -D dfs.replication=1 -put - /line
printf 'put %d GiB: %d s\n' "$gigabytes" "$((SECONDS - begin))"
printf 'a b\nb\n' | "$hanno" dfs -put - /small
"$examples/wordcount" /small /warm 2>/dev/null

mapfile -t workers < <(pgrep -P "$cluster" -f 'hanno[^ ]* worker')
[ "${#workers[@]}" -gt 0 ] || { echo "no worker is found"; exit 1; }
resident() { # the most that one of the workers has, KiB
    local most=0 kib pid
    for pid in "${workers[@]}"; do
        kib=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
        if [ "$kib" -gt "$most" ]; then most=$kib; fi
    done
    echo "$most"
}
before=$(resident)
(while resident >>resident; do sleep 0.5; done) &
watch=$!
begin=$SECONDS
"$examples/wordcount" --reducers 1 /line /out 2>job.err &
job=$!
until "$hanno" job -list | grep -q job_; do kill -0 "$job" 2>/dev/null || break; sleep 0.2; done
timeout "$seconds_max" "$examples/wordcount" /small /beside 2>beside.err || fail "the job beside it failed: $(cat beside.err)"
code=0
timeout "$seconds_max" tail --pid="$job" -f /dev/null || fail "not over after $seconds_max s"
wait "$job" || code=$?
seconds=$((SECONDS - begin))
kill "$watch"; wait "$watch" 2>/dev/null || true; watch=
after=$(sort -n resident | tail -1)
printf 'job: exit code %d after %d s; a worker had %d KiB before and %d KiB at most\n' "$code" "$seconds" "$before" "$after"
grep -E 'line|/line' job.err | head -3
[ "$code" -eq 1 ] || fail "the job did not fail"
[ "$seconds" -le "$seconds_max" ] || fail "longer than $seconds_max s"
[ "$((after - before))" -le "$grown_max_kib" ] || fail "a worker grew by more than $grown_max_kib KiB"
grep -q '/line' job.err || fail "the file is not named"
grep -Eq '(byte|offset) 0\b' job.err || fail "the offset is not named"
grep -Eq 'longer than|too long' job.err || fail "the cause is not named"
if "$hanno" dfs -test -e /out; then fail "the output directory is there"; fi
[ "$("$hanno" dfs -cat '/beside/part-*' | sort | tr '\n\t' ', ')" = 'a 1,b 2,' ] || fail "the job beside it has another result"
echo "as it must be"
