#!/usr/bin/env bash
# OpenDAL's own behaviour tests, as the source distribution of its Python package brings them, over its service `webhdfs`. They need
# nothing of the sources: the package that is tested is the installed one.
set -euo pipefail
. "$(dirname "$0")/source.sh"
unpack opendal bindings/python/tests
cd bindings/python
export OPENDAL_TEST=webhdfs OPENDAL_WEBHDFS_ENDPOINT=$HANNO_WEBHDFS OPENDAL_WEBHDFS_ROOT=/clients/opendal-suite
export OPENDAL_WEBHDFS_ATOMIC_WRITE_DIR=.parts/
if [ -n "${HANNO_WEBHDFS_TOKEN:-}" ]; then export OPENDAL_WEBHDFS_DELEGATION=$HANNO_WEBHDFS_TOKEN
else export OPENDAL_WEBHDFS_USER_NAME=$HANNO_WEBHDFS_USER; fi
"$python" -m pytest --quiet -p no:cacheprovider tests
echo "OpenDAL's own tests: ok"
