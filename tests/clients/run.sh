#!/usr/bin/env bash
# Runs every foreign client against a cluster of its own, by token and then on one that believes names (HANNO_CLIENTS_AUTH: one of
# `token`, `simple`). Usage: tests/clients/run.sh [HANNO-BINARY [CLIENT…]], where a client is the
# name of a script beside this one (curl, hdfscli, hadoop, …); all by default. HANNO_CLIENTS_LOAD_SECONDS says how long `load` lasts.
# Clients are installed into a virtual environment under target/clients; needs python3 with venv, curl and a Java runtime. `install` as the
# only argument does no more than that.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ "${1:-}" = install ] || { HANNO=$(realpath "${1:-$root/target/release/hanno}") && export HANNO; }
clients=("${@:2}"); [ ${#clients[@]} -gt 0 ] || clients=(curl load large hdfscli hdfscli_suite fsspec_pandas epochs dask_frames opendal_files opendal_suite hadoop spark ray_data mrjob_examples)
home=${HANNO_CLIENTS_HOME:-$root/target/clients}
port_base=${HANNO_CLIENTS_PORT_BASE:-21650}
python=$home/venv/bin/python

mkdir -p "$home"
if ! [ -f "$home/installed" ] || ! cmp -s "$home/installed" "$here/requirements.txt"; then
    started=$SECONDS
    rm -rf "$home/venv"
    python3 -m venv "$home/venv"
    "$home/venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir -r "$here/requirements.txt"
    cp "$here/requirements.txt" "$home/installed"
    echo "installation: $((SECONDS - started)) s"
fi
[ "${1:-}" != install ] || exit 0
jars=$("$python" -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')
export HADOOP_JARS=${HADOOP_JARS:-$jars}

cluster='' data=''
finish() {
    [ -z "$cluster" ] || { kill "$cluster" 2>/dev/null || true; wait "$cluster" 2>/dev/null || true; }
    [ -z "$data" ] || rm -rf "$data"
    cluster='' data=''
}
trap finish EXIT
start() { # token|simple
    data=$(mktemp -d "$home/cluster-XXXXXX")
    HADOOP_USER_NAME=tester "$HANNO" cluster --data "$data" --auth "$1" --datanodes 2 --workers 1 --port-base "$port_base" \
        >"$home/cluster.out" 2>"$home/cluster.err" &
    cluster=$!
    for _ in $(seq 300); do
        grep -q '^ready ' "$home/cluster.out" && break
        kill -0 "$cluster" 2>/dev/null || { cat "$home/cluster.err"; exit 1; }
        sleep 0.2
    done
    grep -q '^ready ' "$home/cluster.out" || { cat "$home/cluster.err"; exit 1; }
    export HANNO_WEBHDFS=http://127.0.0.1:$port_base HANNO_WEBHDFS_AUTH=$1 HANNO_DATA=$data
    unset HANNO_WEBHDFS_TOKEN HADOOP_TOKEN_FILE_LOCATION
    HANNO_WEBHDFS_PROOF=user.name=tester
    if [ "$1" = token ]; then
        export HANNO_NAMENODE=$HANNO_WEBHDFS HANNO_WEBHDFS_TOKEN HADOOP_TOKEN_FILE_LOCATION=$data/hadoop.token
        HANNO_WEBHDFS_TOKEN=$("$HANNO" admin token --user tester)
        HANNO_WEBHDFS_PROOF=delegation=$HANNO_WEBHDFS_TOKEN
        "$HANNO" admin token --user tester --format hadoop-file --output "$HADOOP_TOKEN_FILE_LOCATION"
        unset HANNO_NAMENODE
    fi
    export HANNO_WEBHDFS_PROOF
}

cd "$here"
export PYTHONDONTWRITEBYTECODE=1 HANNO_WEBHDFS_USER=tester HANNO_PYTHON=$python
failed=()
for auth in ${HANNO_CLIENTS_AUTH:-token simple}; do
    start "$auth"
    for client in "${clients[@]}"; do
        started=$SECONDS
        if [ -f "$client.sh" ]; then script=(bash "$client.sh"); else script=("$python" "$client.py"); fi
        HADOOP_USER_NAME=tester "${script[@]}" || failed+=("$client by $auth")
        echo "$client by $auth: $((SECONDS - started)) s"
    done
    finish
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
