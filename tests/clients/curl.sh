#!/usr/bin/env bash
# curl, as Hadoop's manual of WebHDFS has it.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
base=$HANNO_WEBHDFS/webhdfs/v1/clients/curl
user=$HANNO_WEBHDFS_PROOF
ask() { curl --silent --show-error --fail-with-body "$@"; }
expect() { [[ $1 == *"$2"* ]] || { echo "expected $2 in $1"; exit 1; }; }

head -c 5000000 /dev/urandom >"$work/data"
expect "$(ask -i -X PUT "$base?op=MKDIRS&$user&permission=711")" '{"boolean":true}'
ask -L -X PUT -T "$work/data" "$base/f?op=CREATE&$user"
ask -L "$base/f?op=OPEN&$user" | cmp - "$work/data"
ask -L "$base/f?op=OPEN&$user&offset=100&length=1000" | cmp - <(tail -c +101 "$work/data" | head -c 1000)
ask -L -X POST -T "$work/data" "$base/f?op=APPEND&$user"
expect "$(ask "$base/f?op=GETFILESTATUS&$user")" '"length":10000000'
ask -X POST "$base/f?op=TRUNCATE&newlength=5000000&$user" >/dev/null
expect "$(ask -L "$base/f?op=GETFILECHECKSUM&$user")" 'MD5-of-0MD5-of-512CRC32C'
# Two steps by hand, without a redirect.
url=$(ask -X PUT "$base/g?op=CREATE&noredirect=true&$user" | sed 's/.*"Location":"\([^"]*\)".*/\1/')
ask -X PUT -T "$work/data" "$url"
# From a pipe, of a length that nobody knows before.
ask -L -X PUT -T - "$base/h?op=CREATE&$user" <"$work/data"
ask -L "$base/h?op=OPEN&$user" | cmp - "$work/data"
expect "$(ask -X PUT "$base/f?op=RENAME&destination=/clients/curl/r&$user")" '{"boolean":true}'
expect "$(ask "$base?op=LISTSTATUS&$user")" '"pathSuffix":"r"'
expect "$(curl -s -w '%{http_code}' "$base/f?op=GETFILESTATUS&$user")" '404'
# Names are percent-encoded, all that is no letter or digit.
encoded() { printf %s "$1" | od -An -v -tx1 | tr -d ' \n' | sed 's/../%&/g'; }
long=$(head -c 255 /dev/zero | tr '\0' x)
for name in "with space" "100%" "a%25b" "a+b" "a&b" "a=b;c" "a?b" "a#b" "quote'\"" "日本語" "😀" "[brackets]{x}" 'back\slash' "$long"; do
    path=$base/$(encoded "$name")
    printf %s "$name" | ask -L -X PUT -T - "$path?op=CREATE&$user"
    expect "$(ask -L "$path?op=OPEN&$user")" "$name"
    expect "$(ask -X PUT "$path?op=RENAME&destination=/clients/curl/$(encoded "moved to ${name:0:200}")&$user")" '{"boolean":true}'
done
expect "$(ask -X DELETE "$base?op=DELETE&recursive=true&$user")" '{"boolean":true}'
echo "curl: ok"
