#!/usr/bin/env bash
# 64 clients at once for HANNO_CLIENTS_LOAD_SECONDS (60), mixed operations, some through a gateway; every answer is checked.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
port=$((${HANNO_WEBHDFS##*:} + 30))
cat >"$work/gateway.toml" <<END
namenode = "$HANNO_WEBHDFS"
secret_file = "$HANNO_DATA/secret"
bind = "127.0.0.1:$port"
[webhdfs]
auth = "$HANNO_WEBHDFS_AUTH"
END
"$HANNO" gateway --config "$work/gateway.toml" 2>"$work/gateway.log" &
gateway=$!
trap 'kill $gateway; wait $gateway || true; rm -rf "$work"' EXIT
for _ in $(seq 100); do curl --silent --fail --output /dev/null "http://127.0.0.1:$port/healthz" && break; sleep 0.1; done
python3 "$here/../../bench/webhdfs.py" load --namenode "$HANNO_WEBHDFS" --gateway "http://127.0.0.1:$port" --clients 64 --seconds "${HANNO_CLIENTS_LOAD_SECONDS:-60}"
echo "64 clients at once: ok"
