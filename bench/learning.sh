#!/usr/bin/env bash
# learning.sh DIRECTORY: seconds of an iteration of k-means and of logistic regression over 1 GB, after the first, on a fresh cluster of this machine.
# DIRECTORY gets the points and the cluster. With SPARK_SUBMIT set to the command of Spark's `spark-submit` and its options, Spark's side, too.
# Build first: cargo build --release --bins --examples && cargo build --release -p learning --examples
set -euo pipefail
cd "$(dirname "$0")/.."
directory=$(mkdir -p "$1" && realpath "$1")
hanno=$PWD/target/release/hanno; examples=$PWD/target/release/examples
for kind in groups kinds; do
  [ -e "$directory/$kind.txt" ] || python3 bench/points.py "$kind" 1000000000 >"$directory/$kind.txt"
done
seconds() { local begin end; begin=$(date +%s.%N); "$@" >"$directory/said"; end=$(date +%s.%N); awk "BEGIN { print $end - $begin }"; }
# after_first NAME COMMAND...: with `--rounds` 1 and 11 in turn, three times each.
after_first() {
  local name=$1 run; shift
  for run in 1 2 3; do
    "$hanno" dfs -rm -r -f -skipTrash /groups-out >"$directory/said"
    one=$(seconds "$@" 1)
    "$hanno" dfs -rm -r -f -skipTrash /groups-out >"$directory/said"
    eleven=$(seconds "$@" 11)
    awk "BEGIN { printf \"%s: %.2f s with one round, %.3f s for a round after it\\n\", \"$name\", $one, ($eleven - $one) / 10 }"
  done
}
rm -rf "$directory/cluster"
. bench/cluster.sh
trap end_cluster EXIT
begin_cluster "$hanno" "$directory"
"$hanno" dfs -put "$directory/groups.txt" "$directory/kinds.txt" /
kmeans() { "$examples/kmeans" --quiet --k 25 --rounds "$1" /groups.txt /groups-out; }
logistic() { "$examples/logistic_regression" --quiet --accuracy 1e-12 --rounds "$1" /kinds.txt; }
after_first k-means kmeans
after_first "logistic regression" logistic
end_cluster
[ -n "${SPARK_SUBMIT:-}" ] || exit 0
for run in 1 2 3; do
  $SPARK_SUBMIT bench/spark_learning.py kmeans "$directory/groups.txt" 2>"$directory/spark.log" | grep after
  $SPARK_SUBMIT bench/spark_learning.py logistic "$directory/kinds.txt" 2>"$directory/spark.log" | grep after
done
