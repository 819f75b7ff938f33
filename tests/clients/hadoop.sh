#!/usr/bin/env bash
# Hadoop's own shell (from the jars that pyspark brings) over webhdfs://, compared with `hanno dfs`: same files, same words,
# same exit codes. Needs HANNO_WEBHDFS, HANNO_WEBHDFS_USER, HANNO (the binary) and HADOOP_JARS (the folder of jars).
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export HANNO_NAMENODE=$HANNO_WEBHDFS HADOOP_USER_NAME=$HANNO_WEBHDFS_USER
printf '<configuration><property><name>fs.defaultFS</name><value>%s</value></property></configuration>\n' \
    "${HANNO_WEBHDFS/http:/webhdfs:}" >"$work/core-site.xml"
printf 'log4j.rootLogger=OFF\n' >"$work/log4j.properties"
hadoop() {
    java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j.configuration="file:$work/log4j.properties" \
        -Dlog4j2.level=OFF -cp "$work:$HADOOP_JARS/*" org.apache.hadoop.fs.FsShell "$@"
}

# The same command by both: output, errors and exit code must agree.
same() {
    local code=0 ours=0
    hadoop "$@" >"$work/out" 2>"$work/err" || code=$?
    "$HANNO" dfs "$@" >"$work/our.out" 2>"$work/our.err" || ours=$?
    if [ $code != $ours ] || ! cmp -s "$work/out" "$work/our.out" || ! diff -q "$work/err" "$work/our.err" >/dev/null; then
        echo "dfs $*: exit code $code, ours $ours"
        diff "$work/out" "$work/our.out" | head -20 || true
        diff "$work/err" "$work/our.err" | head -20 || true
        exit 1
    fi
}

head -c 3000000 /dev/urandom >"$work/data"
hadoop -mkdir -p /clients/hadoop/sub
hadoop -put "$work/data" "/clients/hadoop/a b%+&=;#"
hadoop -put "$work/data" /clients/hadoop/data
"$HANNO" dfs -put "$work/data" /clients/hadoop/ours
printf 'one\ntwo\n' | hadoop -put - /clients/hadoop/lines
hadoop -touchz /clients/hadoop/empty
for name in data ours "a b%+&=;#"; do hadoop -cat "/clients/hadoop/$name" | cmp - "$work/data"; done
hadoop -get /clients/hadoop/ours "$work/back"; cmp "$work/back" "$work/data"
hadoop -mv /clients/hadoop/data /clients/hadoop/sub/moved
hadoop -cp /clients/hadoop/lines /clients/hadoop/sub/copy
hadoop -chmod 640 /clients/hadoop/lines
hadoop -chown alice:staff /clients/hadoop/lines
hadoop -setrep 1 /clients/hadoop/lines >/dev/null

same -ls /clients/hadoop
same -ls -R /clients/hadoop
same -cat /clients/hadoop/lines
same -tail /clients/hadoop/lines
same -stat "%n %b %o %r %u %g %F %a %A" /clients/hadoop/lines /clients/hadoop/sub
same -count /clients/hadoop
same -du -s /clients/hadoop
same -du /clients/hadoop
same -checksum /clients/hadoop/ours /clients/hadoop/lines /clients/hadoop/empty
same -test -d /clients/hadoop
same -test -f /clients/hadoop
same -test -z /clients/hadoop/empty
same -cat /clients/nothing
same -ls /clients/nothing
same -mkdir /clients/hadoop
same -rm /clients/hadoop
same -rm /clients/nothing
same -mv /clients/nothing /clients/y
same -chmod 600 /clients/nothing
same -put "$work/data" /clients/hadoop/ours
same -get /clients/nothing "$work/x"
hadoop -rm -r -skipTrash /clients/hadoop >/dev/null
same -test -e /clients/hadoop
echo "Hadoop's shell: ok"
