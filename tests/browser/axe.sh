#!/usr/bin/env bash
# Installs axe-core, which the tests of the pages use, below the folder that has what is built. It is fetched once, by npm, and checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=4.14.1
sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
place=${CARGO_TARGET_DIR:-target}/axe-core-$version
[ ! -f "$place/axe.min.js" ] || exit 0
fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT
npm pack --silent --pack-destination "$fetched" "axe-core@$version" >/dev/null
archive=$fetched/axe-core-$version.tgz
echo "$sum  $archive" | sha256sum --check --quiet
mkdir -p "$place"
tar xzf "$archive" -C "$place" --strip-components=1 package/axe.min.js package/LICENSE
