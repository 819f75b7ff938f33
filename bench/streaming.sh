#!/usr/bin/env bash
# Five streaming jobs as people write them, each on so many megabytes (100 by default), on a cluster of its own, against a plain
# pipeline's result. Usage: bench/streaming.sh [HANNO-BINARY] [MEGABYTES]. Prints seconds of both; ends at the first difference.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
hanno=$(realpath "${1:-$root/target/release/hanno}")
megabytes=${2:-100}
work=$(mktemp -d "${TMPDIR:-/tmp}/hanno-streaming-XXXXXX")
port_base=${HANNO_BENCH_PORT_BASE:-21850}
export LC_ALL=C
. "$root/bench/cluster.sh"
trap 'end_cluster; rm -rf "$work"' EXIT
begin_cluster "$hanno" "$work" --port-base "$port_base"
cd "$work"

# Input, the same in every run.
python3 - "$megabytes" <<'PY'
import random
import sys

size = int(sys.argv[1]) * 1_000_000
choices = random.Random(11)


def write(name, line):
    with open(name, "w") as file:
        written = number = 0
        while written < size:
            written += file.write(line(number))
            number += 1


words = ["w%x" % choices.randrange(1 << choices.randrange(2, 18)) for _ in range(100_000)]
write("text", lambda _: " ".join(choices.choices(words, k=12)) + "\n")
write("log", lambda n: '10.0.%d.%d - - [%d] "GET /p%d HTTP/1.1" %d %d\n' % (
    choices.randrange(4), choices.randrange(256), n, choices.randrange(1000), choices.choice([200, 200, 404, 500]), choices.randrange(90000)))
with open("users", "w") as file:
    file.writelines("%d\tuser%d\n" % (n, n) for n in range(100_000))
write("visits", lambda _: "%d\t/page%d/%d\n" % (choices.randrange(120_000), choices.randrange(1000), choices.randrange(10**9)))
write("stations", lambda n: "s%03d,%d,%d\n" % (choices.randrange(500), choices.randrange(-400, 500), n))
write("numbers", lambda _: "%d\n" % choices.randrange(10**9))
PY
"$hanno" dfs -mkdir /in
"$hanno" dfs -put text log users visits stations numbers /in

run() { # NAME OPTIONS...
    local name=$1 begin; shift
    begin=$(date +%s.%N)
    "$hanno" job streaming -output "/$name" "$@" 2>"$name.err" || { cat "$name.err"; exit 1; }
    printf '%-16s %6.1f s' "$name" "$(echo "$(date +%s.%N) - $begin" | bc)"
    "$hanno" dfs -cat "/$name/part-*" | sort >"$name.found"
}
plain() { # NAME: the expected lines on standard input
    local name=$1 begin
    begin=$(date +%s.%N)
    sort >"$name.expected"
    printf '   plain %6.1f s\n' "$(echo "$(date +%s.%N) - $begin" | bc)"
    cmp "$name.found" "$name.expected" || { echo "$name differs"; exit 1; }
    [ -s "$name.expected" ] || { echo "$name is empty"; exit 1; }
}

cat >mapper.py <<'PY'
#!/usr/bin/env python3
import sys
for line in sys.stdin:
    for word in line.strip().split():
        print('%s\t%s' % (word, 1))
PY
cat >reducer.py <<'PY'
#!/usr/bin/env python3
import sys
current_word, current_count = None, 0
for line in sys.stdin:
    word, count = line.strip().split('\t', 1)
    if current_word == word:
        current_count += int(count)
    else:
        if current_word is not None:
            print('%s\t%s' % (current_word, current_count))
        current_word, current_count = word, int(count)
if current_word is not None:
    print('%s\t%s' % (current_word, current_count))
PY
chmod +x mapper.py reducer.py
run word_count -files mapper.py,reducer.py -input /in/text -mapper mapper.py -combiner reducer.py -reducer reducer.py -numReduceTasks 2
tr ' ' '\n' <text | awk '{ n[$0]++ } END { for (w in n) print w "\t" n[w] }' | plain word_count

cat >sum.awk <<'AWK'
#!/usr/bin/awk -f
BEGIN { FS = OFS = "\t" }
$1 != key { if (NR > 1) printf "%s\t%.0f\n", key, sum; key = $1; sum = 0 }
{ sum += $2 }
END { if (NR) printf "%s\t%.0f\n", key, sum }
AWK
run log_analysis -file sum.awk -input /in/log -mapper "awk '\$8 == 200 { print \$1 \"\\t\" \$9 }'" -combiner 'awk -f sum.awk' -reducer 'awk -f sum.awk'
awk '$8 == 200 { s[$1] += $9 } END { for (h in s) printf "%s\t%.0f\n", h, s[h] }' log | plain log_analysis

cat >join_map.py <<'PY'
import os, sys
tag = '0' if os.environ['map_input_file'].endswith('users') else '1'
for line in sys.stdin:
    key, value = line.rstrip('\n').split('\t')
    print(f'{key}\t{tag}\t{value}')
PY
cat >join_reduce.py <<'PY'
import sys
user = key = None
for line in sys.stdin:
    found, tag, value = line.rstrip('\n').split('\t')
    if tag == '0':
        key, user = found, value
    elif found == key:
        print(f'{user}\t{value}')
PY
run join -D stream.num.map.output.key.fields=2 -D mapreduce.partition.keypartitioner.options=-k1,1 -partitioner KeyFieldBasedPartitioner \
    -files join_map.py,join_reduce.py -input /in/users -input /in/visits -mapper 'python3 join_map.py' -reducer 'python3 join_reduce.py' -numReduceTasks 2
awk -F '\t' 'NR == FNR { user[$1] = $2; next } $1 in user { print user[$1] "\t" $2 }' users visits | plain join

# The three highest of each station, by a partial key and a falling numeric order in the second field.
run secondary_sort -D stream.map.output.field.separator=, -D stream.num.map.output.key.fields=3 -D mapreduce.map.output.key.field.separator=, \
    -D mapreduce.partition.keypartitioner.options=-k1,1 -partitioner org.apache.hadoop.mapred.lib.KeyFieldBasedPartitioner \
    -D mapreduce.job.output.key.comparator.class=org.apache.hadoop.mapreduce.lib.partition.KeyFieldBasedComparator \
    -D 'mapreduce.partition.keycomparator.options=-k1,1 -k2,2nr -k3,3n' -numReduceTasks 2 \
    -input /in/stations -mapper cat -reducer "awk -F , '{ sub(/\\t\$/, \"\") } \$1 != s { s = \$1; n = 0 } n++ < 3 { print }'"
sed -i 's/\t$//' secondary_sort.found
sort -t , -k1,1 -k2,2nr -k3,3n stations | awk -F , '$1 != s { s = $1; n = 0 } n++ < 3' | plain secondary_sort

cat >typed_map.py <<'PY'
import struct, sys
out = sys.stdout.buffer
pair = struct.Struct('>bibq')
for line in sys.stdin.buffer:
    n = int(line)
    out.write(pair.pack(3, n % 1000, 4, n))
PY
cat >typed_reduce.py <<'PY'
import struct, sys
out, pair = sys.stdout.buffer, struct.Struct('>bibq')
sums = {}
while True:
    record = sys.stdin.buffer.read(pair.size)
    if not record:
        break
    _, key, _, value = pair.unpack(record)
    sums[key] = sums.get(key, 0) + value
for key, value in sums.items():
    out.write(struct.pack('>bibq', 3, key, 4, value))
PY
run typed_bytes -D stream.map.output=typedbytes -D stream.reduce.input=typedbytes -D stream.reduce.output=typedbytes -numReduceTasks 2 \
    -files typed_map.py,typed_reduce.py -input /in/numbers -mapper 'python3 typed_map.py' -reducer 'python3 typed_reduce.py'
awk '{ s[$1 % 1000] += $1 } END { for (k in s) printf "%d\t%.0f\n", k, s[k] }' numbers | plain typed_bytes
echo "streaming: ok"
