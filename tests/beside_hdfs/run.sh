#!/usr/bin/env bash
# Runs the shell beside Apache HDFS: every line of lines/ on a live cluster of Apache's and on one of this program, and compares exit codes, output, errors
# and what is left. Usage: tests/beside_hdfs/run.sh [HANNO-BINARY [FILE|FILE/SCENARIO…]], where FILE is a name in lines/.
# Needs a JDK (17 or older for Java's security manager), Maven and python3; the first run fetches Hadoop's jars from Maven Central into target/beside_hdfs.
# Exits with 1 and both texts for each difference that accepted.txt does not list, and for each that it lists and that is gone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
hanno=$(realpath "${1:-$root/target/release/hanno}")
home=${HANNO_BESIDE_HOME:-$root/target/beside_hdfs}

mkdir -p "$home/jars" "$home/classes"
if ! cmp -s "$here/pom.xml" "$home/installed"; then
    mvn -q -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$home/jars"
    cp "$here/pom.xml" "$home/installed"
fi
[ "$home/classes/Beside.class" -nt "$here/Beside.java" ] || javac -nowarn -Xlint:-removal -cp "$home/jars/*" -d "$home/classes" "$here/Beside.java"
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/beside.py" --hanno "$hanno" --home "$home" "${@:2}"
