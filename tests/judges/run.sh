#!/usr/bin/env bash
# Runs the examples with `--local` and on a cluster of its own, on real data, and compares what they find with what independent programs find:
# scikit-learn, networkx, scipy and plain Python. Usage: tests/judges/run.sh [HANNO-BINARY [JUDGE…]], where a judge is the name of an example;
# all by default. Examples are expected beside the binary: cargo build --release --workspace --bins --examples.
# The judges are installed into a virtual environment under target/judges; needs python3 with venv. The graph is that of Debian's packages:
# without their lists `apt-get update` fetches them, which needs root. `install` as the only argument does no more than that.
# Prints a table, and exits with 1 and a line for each judge that disagrees.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ "${1:-}" = install ] || { HANNO=$(realpath "${1:-$root/target/release/hanno}") && export HANNO; }
home=${HANNO_JUDGES_HOME:-$root/target/judges}
port_base=${HANNO_JUDGES_PORT_BASE:-21850}
python=$home/venv/bin/python

mkdir -p "$home"
/usr/bin/env python3 -c 'import venv, ensurepip' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3 python3-venv >/dev/null; }
if ! [ -f "$home/installed" ] || ! cmp -s "$home/installed" "$here/requirements.txt"; then
    rm -rf "$home/venv"
    python3 -m venv "$home/venv"
    "$home/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$home/installed"
fi
[ "$(apt-cache dumpavail | grep -c '^Package:')" -gt 10000 ] || apt-get update -qq
[ -s "$home/packages" ] || apt-cache dumpavail >"$home/packages"
[ "${1:-}" != install ] || exit 0

data=$(mktemp -d "$home/run-XXXXXX")
cluster=''
finish() {
    [ -z "$cluster" ] || { kill "$cluster" 2>/dev/null || true; wait "$cluster" 2>/dev/null || true; }
    rm -rf "$data"
}
trap finish EXIT
"$HANNO" cluster --data "$data/cluster" --datanodes 2 --workers 2 --port-base "$port_base" >"$home/cluster.out" 2>"$home/cluster.err" &
cluster=$!
for _ in $(seq 300); do
    grep -q '^ready ' "$home/cluster.out" && break
    kill -0 "$cluster" 2>/dev/null || { cat "$home/cluster.err"; exit 1; }
    sleep 0.2
done
grep -q '^ready ' "$home/cluster.out" || { cat "$home/cluster.err"; exit 1; }
HANNO_NAMENODE=$(sed -n 's/^ready .*namenode=\([^ ]*\).*/\1/p' "$home/cluster.out")
HANNO_JOBTRACKER=$(sed -n 's/^ready .*jobtracker=\([^ ]*\).*/\1/p' "$home/cluster.out")
export HANNO_NAMENODE HANNO_JOBTRACKER
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
cd "$here"
"$python" judge.py --packages "$home/packages" --scratch "$data/scratch" "${@:2}"
