#!/usr/bin/env bash
# 5 GiB up and down by curl and by `hanno dfs` on a cluster of its own: the memory of the daemons must stay flat. Throughput is judged
# with a wide margin, because it is one round and others may work on this machine; `bench/webhdfs.py file` by itself judges it in earnest. Where the disk
# has less than 32 GiB to spare, some of which DataNodes leave to others, 1 GiB must do.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d -p "$(dirname "$HANNO_DATA")")
trap 'rm -rf "$work"' EXIT
size=5g
[ "$(df --output=avail -k "$work" | tail -1)" -gt $((32 << 20)) ] || size=1g
echo "$size up and down"
"${HANNO_PYTHON:-python3}" "$here/../../bench/webhdfs.py" file --hanno "$HANNO" --data "$work/large" --size "$size" --rounds 1 \
    --ratio-min 0.4 --port-base $((${HANNO_WEBHDFS##*:} + 50))
echo "a large file: ok"
