#!/usr/bin/env python3
"""measure.py --label WHAT [-n RUNS] [--bytes N] [--pids DIR] [--pre CMD] [--warm "FILES"] [--ballast FILE] -- CMD...

Runs CMD RUNS times and prints the median run: wall seconds, CPU seconds of CMD and its children, CPU seconds of the daemons
whose pid files lie in DIR over the same span, peak memory of CMD's largest process and the sum of the daemons' peaks.
One JSON line per run goes to $BENCH_OUT (default bench-results.jsonl).

On a virtual machine that gives free memory back to its host, the first touch of such a page costs some 20 us. So before each
run free memory is filled with clean page cache by reading a sparse file (--ballast) and the inputs are read twice (--warm).
"""
import argparse, glob, json, os, re, statistics, subprocess, sys, time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("--label", required=True)
parser.add_argument("-n", type=int, default=3)
parser.add_argument("--bytes", type=float, default=0)
parser.add_argument("--pids", default="", help="directory of pid files, or a list of process ids")
parser.add_argument("--pre", default="", help="shell command before each run, not timed")
parser.add_argument("--warm", default="")
parser.add_argument("--ballast", default=os.environ.get("BALLAST", ""))
parser.add_argument("command", nargs=argparse.REMAINDER)
options = parser.parse_args()
command = options.command[1:] if options.command[:1] == ["--"] else options.command
TICKS = os.sysconf("SC_CLK_TCK")


def daemons():
    if os.path.isdir(options.pids):
        return [int(open(path).read()) for path in glob.glob(options.pids + "/*.pid")]
    return [int(word) for word in options.pids.split()]


def tree(root):
    """A process and all below it: workers' runners belong to the bill."""
    children = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = open(path).read().rsplit(")", 1)[1].split()
            children.setdefault(int(fields[1]), []).append(int(path.split("/")[2]))
        except OSError:
            pass
    found, queue = [], [root]
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(children.get(pid, []))
    return found


def cpu(pid):
    try:
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        return sum(int(field) for field in fields[11:15]) / TICKS  # own and waited-for children
    except OSError:
        return 0.0


def peak(pid):
    try:
        return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) / 1024
    except (OSError, AttributeError):
        return 0.0


def read(path, buffer=bytearray(4 << 20)):
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def prepare():
    if options.pre:
        subprocess.run(options.pre, shell=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.sync()
    if options.ballast:
        if not os.path.exists(options.ballast):
            total = int(re.search(r"MemTotal:\s+(\d+)", open("/proc/meminfo").read()).group(1)) << 10
            with open(options.ballast, "wb") as file:
                file.truncate(total)
        read(options.ballast)
    for path in options.warm.split() * 2:
        if os.path.isfile(path):
            read(path)


runs = []
for number in range(options.n):
    prepare()
    everyone = [pid for daemon in daemons() for pid in tree(daemon)]
    before, start = {pid: cpu(pid) for pid in everyone}, time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    after = [pid for daemon in daemons() for pid in tree(daemon)]
    run = dict(label=options.label, run=number, exit=os.waitstatus_to_exitcode(status), wall=round(wall, 4),
               cpu=round(usage.ru_utime + usage.ru_stime, 3),
               daemon_cpu=round(sum(cpu(pid) - before.get(pid, 0.0) for pid in after), 2),
               peak_mb=round(usage.ru_maxrss / 1024), daemon_peak_mb=round(sum(peak(pid) for pid in after)))
    if run["exit"]:
        sys.stderr.write(errors.decode(errors="replace"))
    runs.append(run)
    with open(os.environ.get("BENCH_OUT", "bench-results.jsonl"), "a") as file:
        file.write(json.dumps(run) + "\n")

middle = sorted(runs, key=lambda run: run["wall"])[len(runs) // 2]
rate = f"{options.bytes / middle['wall'] / 1e6:7.0f} MB/s" if options.bytes else ""
walls = [run["wall"] for run in runs]
print(f"{options.label:34s} n={options.n} wall {middle['wall']:8.3f} s ({min(walls):.3f}..{max(walls):.3f})  "
      f"cpu {middle['cpu']:6.2f}+{middle['daemon_cpu']:.2f} s  peak {middle['peak_mb']}+{middle['daemon_peak_mb']} MB {rate}"
      + ("  FAILED" if any(run["exit"] for run in runs) else ""))
sys.exit(any(run["exit"] for run in runs))
