#!/usr/bin/env python3
"""WebHDFS under load, and with one large file. Needs nothing but Python and, for `file`, curl.

    bench/webhdfs.py load --hanno target/release/hanno --data /disk/dir
    bench/webhdfs.py load --namenode http://127.0.0.1:9870 [--gateway http://127.0.0.1:14000]
    bench/webhdfs.py file --hanno target/release/hanno --data /disk/dir

`load`, on a cluster of its own with a gateway or on one that is there: so many clients at once, each with a directory of its own, create, read, append, list, rename, look and delete, through
redirects or the gateway. Every answer is compared with what that client knows: content, lengths, names. Tells counts, errors and
latencies per operation; exit code 1 if there was any error.

`file`: a cluster of its own with two DataNodes; the same file up and down by curl over WebHDFS and by `hanno dfs`, some rounds, the
memory of NameNode and DataNodes looked at five times a second. Ends with the medians as a table; exit code 1 if WebHDFS is more
than 25 % slower, or the memory of a daemon is not flat."""

import argparse
import contextlib
import http.client
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

USER = "tester"
# Content is cut from this: bytes that do not repeat and cost nothing to compare.
POOL = random.Random(1).randbytes(4 << 20)
OPERATIONS = [("create", 5), ("read", 6), ("range", 3), ("append", 2), ("list", 3), ("rename", 1), ("stat", 3), ("delete", 3)]


# WebHDFS may be this much slower than the native client, and a daemon's memory may move by so much during a transfer.
RATIO_MIN = 0.75
GROWTH_MAX_MIB = 64


class Refused(Exception):
    pass


class Http:
    """Kept-alive connections of one client."""

    def __init__(self):
        self.connections = {}

    def ask(self, method, url, body=None):
        parts = urllib.parse.urlsplit(url)
        target = f"{parts.path}?{parts.query}"
        for attempt in (1, 2):
            connection = self.connections.get(parts.netloc)
            is_old = connection is not None
            if connection is None:
                connection = self.connections[parts.netloc] = http.client.HTTPConnection(parts.netloc, timeout=60)
            try:
                connection.request(method, target, body=body)
                answer = connection.getresponse()
                return answer.status, answer.headers, answer.read()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # A connection that was kept may have been closed by its other end meanwhile; a new one may not.
                connection.close()
                del self.connections[parts.netloc]
                if not is_old or attempt == 2:
                    raise

    def both(self, method, url, body=None):
        """Both steps; a gateway answers reads at the first."""
        status, headers, content = self.ask(method, url)
        if status == 307:
            status, headers, content = self.ask(method, headers["Location"], body)
        return status, content


class Client(threading.Thread):
    def __init__(self, number, address, root, until):
        super().__init__()
        self.random, self.http = random.Random(number), Http()
        self.address, self.directory, self.until = address, f"{root}/{number}", until
        self.files, self.made, self.times, self.errors = {}, 0, {}, []

    def url(self, path, query):
        return f"{self.address}/webhdfs/v1{path}?{query}&user.name={USER}"

    def expect(self, found, expected, what):
        if found != expected:
            text = repr(found if len(repr(found)) < 300 else repr(found)[:300])
            raise Refused(f"{what}: {text}")

    def run(self):
        try:
            self.expect(self.http.ask("PUT", self.url(self.directory, "op=MKDIRS"))[0], 200, "mkdirs")
        except Exception as error:
            self.errors.append(("mkdirs", repr(error)))
            return
        names, weights = zip(*OPERATIONS)
        while time.monotonic() < self.until:
            name = self.random.choices(names, weights)[0]
            if not self.files and name not in ("create", "list"):
                continue
            started = time.monotonic()
            try:
                getattr(self, f"do_{name}")()
                self.times.setdefault(name, []).append(time.monotonic() - started)
            except Exception as error:
                self.errors.append((name, repr(error)))
                return

    def piece(self):
        size = self.random.choice((0, 1, 511, 4096, 30_000, 200_000, 200_000, 2_000_000))
        begin = self.random.randrange(len(POOL) - size)
        return POOL[begin:begin + size]

    def any_file(self):
        name = self.random.choice(sorted(self.files))
        return name, f"{self.directory}/{name}"

    def do_create(self):
        if len(self.files) > 30:
            return self.do_delete()
        name, content = f"f{self.made}", self.piece()
        self.made += 1
        status, told = self.http.both("PUT", self.url(f"{self.directory}/{name}", "op=CREATE&replication=2"), content)
        self.expect((status, told), (201, b""), "create")
        self.files[name] = content

    def do_read(self):
        name, path = self.any_file()
        self.expect(self.http.both("GET", self.url(path, "op=OPEN")), (200, self.files[name]), f"read of {path}")

    def do_range(self):
        name, path = self.any_file()
        content = self.files[name]
        if not content:
            return
        begin = self.random.randrange(len(content))
        length = self.random.randrange(1, 50_000)
        found = self.http.both("GET", self.url(path, f"op=OPEN&offset={begin}&length={length}"))
        self.expect(found, (200, content[begin:begin + length]), f"range of {path}")

    def do_append(self):
        name, path = self.any_file()
        more = self.piece()[:100_000]
        self.expect(self.http.both("POST", self.url(path, "op=APPEND"), more), (200, b""), f"append to {path}")
        self.files[name] += more

    def do_list(self):
        status, _, told = self.http.ask("GET", self.url(self.directory, "op=LISTSTATUS"))
        self.expect(status, 200, "list")
        listed = {entry["pathSuffix"]: entry["length"] for entry in json.loads(told)["FileStatuses"]["FileStatus"]}
        self.expect(listed, {name: len(content) for name, content in self.files.items()}, f"list of {self.directory}")

    def do_stat(self):
        name, path = self.any_file()
        status, _, told = self.http.ask("GET", self.url(path, "op=GETFILESTATUS"))
        self.expect((status, f'"length":{len(self.files[name])},'.encode() in told), (200, True), f"stat of {path}")

    def do_rename(self):
        name, path = self.any_file()
        new = f"r{self.made}"
        self.made += 1
        status, _, told = self.http.ask("PUT", self.url(path, f"op=RENAME&destination={self.directory}/{new}"))
        self.expect((status, told), (200, b'{"boolean":true}'), f"rename of {path}")
        self.files[new] = self.files.pop(name)

    def do_delete(self):
        name, path = self.any_file()
        status, _, told = self.http.ask("DELETE", self.url(path, "op=DELETE"))
        self.expect((status, told), (200, b'{"boolean":true}'), f"delete of {path}")
        del self.files[name]


def load(args):
    if args.namenode:
        return put_load_on(args, args.namenode, args.gateway)
    with cluster_of(args) as (words, _), gateway_of(args, words["namenode"]) as gateway:
        return put_load_on(args, words["namenode"], gateway)


def put_load_on(args, namenode, gateway):
    root = "/clients/load"
    until = time.monotonic() + args.seconds
    # Every fourth goes through the gateway, where there is one.
    address = lambda number: gateway if gateway and number % 4 == 3 else namenode
    clients = [Client(number, address(number), root, until) for number in range(args.clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    Http().ask("DELETE", f"{namenode}/webhdfs/v1{root}?op=DELETE&recursive=true&user.name={USER}")
    errors = [error for client in clients for error in client.errors]
    print(f"{'operation':<10} {'count':>8} {'per s':>8} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
    for name, _ in OPERATIONS:
        times = sorted(time for client in clients for time in client.times.get(name, []))
        if times:
            at = lambda share: times[min(len(times) - 1, int(len(times) * share))] * 1000
            print(f"{name:<10} {len(times):>8} {len(times) / args.seconds:>8.1f} {at(0.5):>8.1f} {at(0.99):>8.1f} {at(1):>8.1f}")
    print(f"{len(errors)} errors with {args.clients} clients in {args.seconds} s")
    for error in errors[:20]:
        print(*error)
    return 1 if errors else 0


class Memory(threading.Thread):
    """Resident memory of processes, looked at while something runs."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.stop, self.seen = pids, threading.Event(), {name: [] for name in pids}

    def run(self):
        while not self.stop.wait(0.2):
            for name, pid in self.pids.items():
                with open(f"/proc/{pid}/status") as file:
                    resident = next(line for line in file if line.startswith("RssAnon:"))
                self.seen[name].append(int(resident.split()[1]) / 1024)

    def told(self):
        return "  ".join(f"{name} {min(seen):.0f}..{max(seen):.0f} MiB" for name, seen in self.seen.items() if seen)

    def growth(self):
        return max(max(seen) - min(seen) for seen in self.seen.values() if seen)


@contextlib.contextmanager
def cluster_of(args):
    """A cluster on a directory that is made and removed again: its addresses, and the process ids of its daemons."""
    data = os.path.join(args.data, "cluster")
    os.makedirs(data)
    environment = dict(os.environ, HADOOP_USER_NAME=USER)
    command = [args.hanno, "cluster", "--data", data, "--datanodes", "2", "--workers", "1", "--port-base", str(args.port_base)]
    cluster = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        words = dict(word.split("=", 1) for word in cluster.stdout.readline().decode().split() if "=" in word)
        names = ("namenode-1", "datanode-1", "datanode-2")
        yield words, {name: open(f"{data}/pids/{name}.pid").read().strip() for name in names}
    finally:
        cluster.terminate()
        cluster.wait()
        subprocess.run(["rm", "-rf", args.data])


@contextlib.contextmanager
def gateway_of(args, namenode):
    """A gateway before a cluster of `cluster_of`: its address."""
    address = f"127.0.0.1:{args.port_base + 30}"
    config = os.path.join(args.data, "gateway.toml")
    with open(config, "w") as file:
        file.write(f'namenode = "{namenode}"\nsecret_file = "{args.data}/cluster/secret"\nbind = "{address}"\n')
    gateway = subprocess.Popen([args.hanno, "gateway", "--config", config], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                Http().ask("GET", f"http://{address}/healthz?")
                break
            time.sleep(0.1)
        yield f"http://{address}"
    finally:
        gateway.terminate()
        gateway.wait()


class Measured:
    """Throughput and memory of each way, over some rounds."""

    def __init__(self, pids, size):
        self.pids, self.size, self.rates, self.growth = pids, size, {}, {}

    def run(self, what, command):
        memory = Memory(self.pids)
        memory.start()
        started = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rate = self.size / (time.monotonic() - started) / 1e6
        memory.stop.set()
        memory.join()
        self.rates.setdefault(what, []).append(rate)
        self.growth[what] = max(self.growth.get(what, 0), memory.growth())
        print(f"{what:<14} {rate:>8.0f} MB/s   {memory.told()}", flush=True)

    def table(self):
        """The medians as Markdown. True if WebHDFS keeps up and the memory is flat."""
        median = {what: statistics.median(rates) for what, rates in self.rates.items()}
        print("\n| | `hanno dfs` | WebHDFS | ratio | memory of a daemon grew by |\n|---|---|---|---|---|")
        good = True
        for direction, native, web in (("up", "dfs -put", "WebHDFS CREATE"), ("down", "dfs -get", "WebHDFS OPEN")):
            ratio = median[web] / median[native]
            print(f"| {direction} | {median[native]:.0f} MB/s | {median[web]:.0f} MB/s | {ratio:.2f} | {self.growth[web]:.0f} MiB |")
            good = good and ratio >= RATIO_MIN and self.growth[web] <= GROWTH_MAX_MIB
        return good


def large_file(args):
    units = {"k": 10, "m": 20, "g": 30}
    size = int(args.size[:-1]) << units[args.size[-1].lower()]
    with cluster_of(args) as (words, pids):
        os.environ.update(HADOOP_USER_NAME=USER, HANNO_NAMENODE=words["namenode"])
        local, back = os.path.join(args.data, "file"), os.path.join(args.data, "back")
        with open(local, "wb") as file:
            for _ in range(size // len(POOL)):
                file.write(POOL)
        url = f"{words['namenode']}/webhdfs/v1/f?user.name={USER}"
        dfs = [args.hanno, "dfs"]
        curl = ["curl", "--silent", "--show-error", "--fail", "--location"]
        measured = Measured(pids, size // len(POOL) * len(POOL))
        for _ in range(args.rounds):
            # One after the other, so that the disk holds one of them at a time.
            for up, down in (
                (("dfs -put", [*dfs, "-put", local, "/f"]), ("dfs -get", [*dfs, "-get", "/f", back])),
                (
                    ("WebHDFS CREATE", [*curl, "-X", "PUT", "-T", local, f"{url}&op=CREATE"]),
                    ("WebHDFS OPEN", [*curl, "-o", back, f"{url}&op=OPEN"]),
                ),
            ):
                measured.run(*up)
                measured.run(*down)
                subprocess.run(["cmp", local, back], check=True)
                os.remove(back)
                subprocess.run([*dfs, "-rm", "-skipTrash", "/f"], check=True, stdout=subprocess.DEVNULL)
        return 0 if measured.table() else 1


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
modes = parser.add_subparsers(required=True)
mode = modes.add_parser("load")
mode.add_argument("--namenode", help="of a cluster that is there; else give --hanno and --data")
mode.add_argument("--gateway")
mode.add_argument("--hanno")
mode.add_argument("--data", help="a directory that is made and removed again")
mode.add_argument("--port-base", type=int, default=21700)
mode.add_argument("--clients", type=int, default=64)
mode.add_argument("--seconds", type=int, default=60)
mode.set_defaults(run=load)
mode = modes.add_parser("file")
mode.add_argument("--hanno", required=True)
mode.add_argument("--size", default="5g")
mode.add_argument("--data", required=True, help="a directory that is made and removed again")
mode.add_argument("--port-base", type=int, default=21700)
mode.add_argument("--rounds", type=int, default=3)
mode.set_defaults(run=large_file)
args = parser.parse_args()
sys.exit(args.run(args))
