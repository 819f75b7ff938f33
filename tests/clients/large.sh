#!/usr/bin/env bash
# 5 GiB up and down by curl and by `hanno dfs` on a cluster of its own: the memory of the daemons must stay flat. Where the disk has less than
# 32 GiB to spare, some of which DataNodes leave to others, 1 GiB must do; HANNO_CLIENTS_LARGE=memory is content with that, and judges memory alone.
# Throughput is judged with 1 GiB in memory, because disks of virtual machines have moments ten times as fast as others; where /dev/shm has no room for
# that, on the disk and with a wider margin.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d -p "$(dirname "$HANNO_DATA")")
memory=
trap 'rm -rf "$work" ${memory:+"$memory"}' EXIT
room_gib() { echo $(($(df --output=avail -k "$1" | tail -1) >> 20)); }
measure() { # DIRECTORY OPTION…
    "${HANNO_PYTHON:-python3}" "$here/../../bench/webhdfs.py" file --hanno "$HANNO" --data "$1/large" --port-base $((${HANNO_WEBHDFS##*:} + 50)) "${@:2}"
}

size=5g
[ "$(room_gib "$work")" -ge 32 ] && [ "${HANNO_CLIENTS_LARGE:-}" != memory ] || size=1g
echo "$size up and down"
measure "$work" --size "$size" --rounds 1 --ratio-min 0
if [ "${HANNO_CLIENTS_LARGE:-}" = memory ]; then
    echo "no ratio is judged"
elif [ "$(room_gib /dev/shm)" -ge 6 ] && [ "$(awk '/^MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo)" -ge 8 ]; then
    memory=$(mktemp -d -p /dev/shm)
    measure "$memory" --size 1g --rounds 3 --ratio-min 0.6
else
    measure "$work" --size 1g --rounds 3 --ratio-min 0.4
fi
echo "a large file: ok"
