#!/usr/bin/env bash
# run.sh DATA_FILE TEXT_FILE [RUNS]: Hanno's side of docs/benchmarks.md on a fresh cluster of this machine: 1 NameNode, 3 DataNodes,
# JobTracker, 2 workers. DATA_FILE: any file of 1 GiB; TEXT_FILE: a text of 1 GiB. SCRATCH: a folder with 10 GB free
# (default ./bench-scratch). Build first: cargo build --release --bins --examples
set -euo pipefail
cd "$(dirname "$0")/.."
data=$(realpath "$1"); text=$(realpath "$2"); runs=${3:-3}
scratch=$(mkdir -p "${SCRATCH:-bench-scratch}" && realpath "${SCRATCH:-bench-scratch}")
hanno=$PWD/target/release/hanno; examples=$PWD/target/release/examples
export BALLAST=${BALLAST-$scratch/ballast} BENCH_OUT=${BENCH_OUT:-$scratch/results.jsonl}
rm -rf "$scratch/cluster"; mkdir -p "$scratch/cluster"
. bench/cluster.sh
trap end_cluster EXIT
begin_cluster "$hanno" "$scratch"
bytes=$(stat -c %s "$data")
m() { python3 bench/measure.py -n "$runs" --pids "$scratch/cluster/pids" "$@"; }

m --label "ls /" -n 10 -- "$hanno" dfs -ls /
m --label "put 1 GiB, 3 replicas" --bytes "$bytes" --warm "$data" --pre "$hanno dfs -rm -f -skipTrash /data" -- "$hanno" dfs -put "$data" /data
m --label "get 1 GiB" --bytes "$bytes" --pre "$hanno dfs -cat /data > /dev/null; rm -f $scratch/got" -- "$hanno" dfs -get /data "$scratch/got"
cmp "$scratch/got" "$data"; rm -f "$scratch/got"
m --label "cat 1 GiB" --bytes "$bytes" --pre "$hanno dfs -cat /data > /dev/null" -- sh -c "exec $hanno dfs -cat /data > /dev/null"
"$hanno" dfs -put "$text" /text
m --label "wordcount 1 GiB" --bytes "$(stat -c %s "$text")" --pre "$hanno dfs -rm -r -f -skipTrash /out; $hanno dfs -cat /text > /dev/null" -- \
  "$examples/wordcount" --quiet --reducers 4 /text /out
# Hadoop's benchmark: DATA_FILE as records of 100 bytes. Replication 1 for the output, as TeraSort has it.
m --label "terasort 1 GiB" --bytes "$bytes" --pre "$hanno dfs -rm -r -f -skipTrash /sorted; $hanno dfs -cat /data > /dev/null" -- \
  "$examples/terasort" --quiet /data /sorted
"$examples/teravalidate" --quiet /sorted /report; "$hanno" dfs -cat '/report/part*'
if [ -n "${GRAPH:-}" ]; then # lines `node target target ...`
  "$hanno" dfs -D dfs.blocksize=45000000 -put "$GRAPH" /graph
  m --label "pagerank, 10 iterations" --pre "$hanno dfs -rm -r -f -skipTrash /ranks; $hanno dfs -cat /graph > /dev/null" -- \
    "$examples/pagerank" --quiet --iterations 10 /graph /ranks
fi
printf 'one line\n' | "$hanno" dfs -put -f - /small
"$examples/wordcount" --quiet --reducers 1 /small /warm
m --label "job of one small map and one reduce" -n 20 --pre "$hanno dfs -rm -r -f -skipTrash /noop" -- "$examples/wordcount" --quiet --reducers 1 /small /noop
m --label "job of one small map, no reduce" -n 20 --pre "$hanno dfs -rm -r -f -skipTrash /noop" -- "$examples/wordcount" --quiet --reducers 0 /small /noop
"$hanno" bench namenode --clients 1,8,32,64 --seconds 5
