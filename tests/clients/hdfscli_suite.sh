#!/usr/bin/env bash
# HdfsCLI's own tests of its client, as its source distribution brings them, against this cluster. What they share is not in the
# distribution: hdfscli_suite.py stands for it.
set -euo pipefail
. "$(dirname "$0")/source.sh"
unpack hdfs
# The client that is tested is the installed one.
rm -rf hdfs
touch test/__init__.py
cp "$here/hdfscli_suite.py" test/util.py
# Some files to send to and fro.
mkdir test/dat
for name in a b c; do head -c 1000 /dev/urandom >"test/dat/$name"; done
HOME=$work HDFSCLI_TEST_URL=$HANNO_WEBHDFS "$python" -m pytest --quiet -p no:cacheprovider \
    test/test_client.py test/test_main.py
echo "HdfsCLI's own tests: ok"
