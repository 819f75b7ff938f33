#!/usr/bin/env bash
# OpenDAL's own behaviour tests, as the source distribution of its Python package brings them, over its service `webhdfs`. They need
# nothing of the sources: the package that is tested is the installed one.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
python=${HANNO_PYTHON:-python3}
version=$(sed -n 's/^opendal==//p' "$here/requirements.txt")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary opendal --dest "$work" "opendal==$version"
tar -C "$work" -xzf "$work/opendal-$version.tar.gz" "opendal-$version/bindings/python/tests"
cd "$work/opendal-$version/bindings/python"
export OPENDAL_TEST=webhdfs OPENDAL_WEBHDFS_ENDPOINT=$HANNO_WEBHDFS OPENDAL_WEBHDFS_ROOT=/clients/opendal-suite
export OPENDAL_WEBHDFS_USER_NAME=$HANNO_WEBHDFS_USER OPENDAL_WEBHDFS_ATOMIC_WRITE_DIR=.parts/
"$python" -m pytest --quiet -p no:cacheprovider tests
echo "OpenDAL's own tests: ok"
