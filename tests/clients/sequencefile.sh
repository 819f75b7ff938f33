#!/usr/bin/env bash
# SequenceFiles exchanged with Hadoop's own writer (in Spark) and reader (`hadoop fs -text`), in both directions, for each way of
# compressing. Needs HANNO_SEQUENCE (the example `sequence` of mr-api; default: beside HANNO, or built) and HADOOP_JARS; Spark
# is that of the jars.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
root=$(cd "$(dirname "$0")/../.." && pwd)
sequence=${HANNO_SEQUENCE:-$(dirname "$HANNO")/examples/sequence}
if ! [ -x "$sequence" ]; then
    (cd "$root" && cargo build --quiet --release -p mr-api --example sequence)
    sequence=${CARGO_TARGET_DIR:-$root/target}/release/examples/sequence
fi
printf 'log4j.rootLogger=OFF\n' >"$work/log4j.properties"
printf '<configuration/>\n' >"$work/core-site.xml"
text() { java -cp "$work:$HADOOP_JARS/*" org.apache.hadoop.fs.FsShell -text "file://$1" 2>/dev/null; }

# Hadoop's writer: every codec that it writes SequenceFiles with where there are no native libraries (gzip is none of them), by record and by block, and none at all.
python=$(dirname "$HADOOP_JARS")/../../../../bin/python
cat >"$work/write.py" <<'PY'
import random
import sys

from pyspark import SparkConf, SparkContext

work = sys.argv[1]
conf = SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false").set("spark.driver.bindAddress", "127.0.0.1")
spark = SparkContext(conf=conf)
spark.setLogLevel("OFF")
choices = random.Random(7)
pairs = [("key %05d ü" % number, str(choices.randrange(2**63))) for number in range(20_000)] + [("", ""), ("x" * 100_000, "1")]
name = "org.apache.hadoop.io.compress."
codecs = {"deflate": "DefaultCodec", "bz2": "BZip2Codec", "snappy": "SnappyCodec", "lz4": "Lz4Codec"}
kinds = [("none", "", {})]
for kind in ("RECORD", "BLOCK"):
    for extension, codec in codecs.items():
        # A compressor made anew for each of many short values takes the JVM minutes.
        if (kind, extension) == ("RECORD", "bz2"):
            continue
        output = "mapreduce.output.fileoutputformat.compress"
        kinds.append((kind.lower(), extension, {output: "true", output + ".type": kind, output + ".codec": name + codec}))
for kind, extension, options in kinds:
    spark.parallelize(pairs, 1).saveAsNewAPIHadoopFile(
        f"file://{work}/spark-{kind}-{extension}",
        "org.apache.hadoop.mapreduce.lib.output.SequenceFileOutputFormat",
        keyClass="org.apache.hadoop.io.Text", valueClass="org.apache.hadoop.io.Text", conf=options)
spark.stop()
PY
"$python" "$work/write.py" "$work" >"$work/spark.log" 2>&1 || { grep -m 3 Caused "$work/spark.log" || tail -5 "$work/spark.log"; exit 1; }

count=0 expected=
for directory in "$work"/spark-*; do
    name=${directory##*/spark-}; kind=${name%%-*}; codec=${name#*-}
    theirs=$directory/part-r-00000
    "$sequence" show "$theirs" | grep -q '^20002 records' || { echo "$name: not all records of Hadoop's file are read"; exit 1; }
    # Ours from theirs: the same way of compressing, and read by Hadoop's own reader.
    "$sequence" copy "$theirs" "$work/ours" "$kind" ${codec:+"$codec"}
    found=$(text "$work/ours" | sha256sum)
    [ "$(text "$theirs" | sha256sum)" = "$found" ] || { echo "$name: Hadoop reads something else from our file"; exit 1; }
    [ "${expected:=$found}" = "$found" ] || { echo "$name: not what the other files hold"; exit 1; }
    [ "$(text "$work/ours" | wc -l)" = 20002 ] || { echo "$name: not 20002 records"; exit 1; }
    count=$((count + 1))
done
[ "$count" = 8 ] || { echo "$count ways of compressing instead of 8"; exit 1; }
echo "sequencefile: ok"
