#!/usr/bin/env python3
"""WebHDFS under load, and with one large file. Needs nothing but Python and, for `file`, curl.

    bench/webhdfs.py load --hanno target/release/hanno --data /disk/dir
    bench/webhdfs.py load --namenode http://127.0.0.1:9870 [--gateway http://127.0.0.1:14000]
    bench/webhdfs.py file --hanno target/release/hanno --data /disk/dir [--python target/clients/venv/bin/python --size 1g]

`load`, on a cluster of its own with a gateway or on one that is there: so many clients at once, each with a directory of its own, create, read, append, list, rename, look and delete, through
redirects or the gateway. Every answer is compared with what that client knows: content, lengths, names. Tells counts, errors and
latencies per operation; exit code 1 if there was any error.

`file`: a cluster of its own with two DataNodes; the same file up and down by `hanno dfs`, by curl over WebHDFS and, with `--python`, by
other clients, some rounds, the memory of NameNode and DataNodes looked at five times a second. `hanno dfs` goes both ways that it has: by the Unix
sockets of its own machine, over which it is handed whole replicas, and over TCP, as from another machine. Ends with the medians as a table; exit
code 1 if curl is more than 25 % slower than `hanno dfs` (up: than the one and the other; down: than the one over TCP), or if the memory of a
daemon is not flat."""

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


# Least share of the native client's throughput, and how far a daemon's memory may move during a transfer.
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
        return f"{self.address}/webhdfs/v1{path}?{query}&{proof()}"

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
    Http().ask("DELETE", f"{namenode}/webhdfs/v1{root}?op=DELETE&recursive=true&{proof()}")
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
        while True:
            for name, pid in self.pids.items():
                with open(f"/proc/{pid}/status") as file:
                    resident = next(line for line in file if line.startswith("RssAnon:"))
                self.seen[name].append(int(resident.split()[1]) / 1024)
            if self.stop.wait(0.2):
                return

    def told(self):
        return "  ".join(f"{name} {min(seen):.0f}..{max(seen):.0f} MiB" for name, seen in self.seen.items() if seen)

    def growth(self):
        return max(max(seen) - min(seen) for seen in self.seen.values() if seen)


def proof():
    """What a URL says of who asks: a token, or a name where those are believed."""
    return os.environ.get("HANNO_WEBHDFS_PROOF", f"user.name={USER}")


def fetch_tokens(hanno, namenode, folder):
    """Gives the clients that follow what each of them takes."""
    environment = dict(os.environ, HADOOP_USER_NAME=USER, HANNO_NAMENODE=namenode)
    token = subprocess.run([hanno, "admin", "token"], check=True, env=environment, capture_output=True, text=True).stdout.strip()
    os.environ["HANNO_WEBHDFS_PROOF"] = f"delegation={token}"
    file = os.path.join(folder, "hadoop.token")
    subprocess.run([hanno, "admin", "token", "--format", "hadoop-file", "--output", file], check=True, env=environment)
    os.environ["HADOOP_TOKEN_FILE_LOCATION"] = file


@contextlib.contextmanager
def cluster_of(args):
    """A cluster on a directory that is made and removed again: its addresses, and the process ids of its daemons."""
    data = os.path.join(args.data, "cluster")
    os.makedirs(data)
    # Deleted replicas leave the disk soon, so that it need not hold two files.
    environment = dict(os.environ, HADOOP_USER_NAME=USER, HANNO_DATANODE_TRASH_GRACE_MS="1000")
    command = [args.hanno, "cluster", "--data", data, "--datanodes", "2", "--workers", "1", "--port-base", str(args.port_base)]
    cluster = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        words = dict(word.split("=", 1) for word in cluster.stdout.readline().decode().split() if "=" in word)
        fetch_tokens(args.hanno, words["namenode"], args.data)
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

    def run(self, client, direction, command):
        memory = Memory(self.pids)
        memory.start()
        started = time.monotonic()
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            rate = self.size / (time.monotonic() - started) / 1e6
        finally:
            memory.stop.set()
            memory.join()
        self.rates.setdefault((client, direction), []).append(rate)
        self.growth[client] = max(self.growth.get(client, 0), memory.growth())
        print(f"{client:<20} {direction:<4} {rate:>8.0f} MB/s   {memory.told()}", flush=True)

    def table(self, ratio_min):
        """The medians as Markdown. True if curl keeps up with the native client and the memory is flat."""
        median = {way: statistics.median(rates) for way, rates in self.rates.items()}
        ratio = lambda client, direction, native: median[client, direction] / median[native, direction]
        natives = [(NATIVE, "up"), (NATIVE, "down"), (NATIVE_TCP, "up"), (NATIVE_TCP, "down")]
        columns = ["client", "up", "down", *(f"{direction}, of {native}" for native, direction in natives), "memory of a daemon grew by"]
        print("\n|", " | ".join(columns), "|\n|" + "---|" * len(columns))
        for client, growth in self.growth.items():
            rates = [f"{median[client, direction]:.0f} MB/s" for direction in ("up", "down")]
            ratios = [f"{ratio(client, direction, native):.2f}" for native, direction in natives]
            print("|", " | ".join([client, *rates, *ratios, f"{growth:.0f} MiB"]), "|")
        judged = [(NATIVE, "up"), (NATIVE_TCP, "up"), (NATIVE_TCP, "down")]
        keeps_up = all(ratio("curl", direction, native) >= ratio_min for native, direction in judged)
        return keeps_up and max(self.growth.values()) <= GROWTH_MAX_MIB


NATIVE, NATIVE_TCP = "`hanno dfs`", "`hanno dfs` over TCP"
HDFSCLI = "import sys; from hdfs import TokenClient; client = TokenClient(sys.argv[1], sys.argv[2]); "
FSSPEC = "import sys, fsspec; fs = fsspec.filesystem('webhdfs', host='127.0.0.1', port=int(sys.argv[1].split(':')[2]), token=sys.argv[2]); "
OPENDAL = (
    "import sys, shutil, opendal; op = opendal.Operator('webhdfs', endpoint=sys.argv[1], root='/', delegation=sys.argv[2], "
    "atomic_write_dir='.parts/'); copy = lambda a, b: shutil.copyfileobj(a, b, 8 << 20); "
)


def ways(args, namenode, local, back):
    """What each client does to send the file and to fetch it."""
    curl = ["curl", "--silent", "--show-error", "--fail", "--location"]
    url = f"{namenode}/webhdfs/v1/f?{proof()}"
    for name, options in (NATIVE, []), (NATIVE_TCP, ["-D", "dfs.client.read.shortcircuit=false"]):
        yield name, [args.hanno, "dfs", *options, "-put", local, "/f"], [args.hanno, "dfs", *options, "-get", "/f", back]
    yield "curl", [*curl, "-X", "PUT", "-T", local, f"{url}&op=CREATE"], [*curl, "-o", back, f"{url}&op=OPEN"]
    if not args.python:
        return
    script = lambda begin, end: [args.python, "-c", begin + end, namenode, proof().split("=", 1)[1], local, back]
    yield "HdfsCLI", script(HDFSCLI, "client.upload('/f', sys.argv[3])"), script(HDFSCLI, "client.download('/f', sys.argv[4])")
    yield "fsspec", script(FSSPEC, "fs.put(sys.argv[3], '/f')"), script(FSSPEC, "fs.get('/f', sys.argv[4])")
    yield (
        "OpenDAL",
        script(OPENDAL, "source = open(sys.argv[3], 'rb'); target = op.open('f', 'wb', chunk=64 << 20); copy(source, target); target.close()"),
        script(OPENDAL, "copy(op.open('f', 'rb'), open(sys.argv[4], 'wb'))"),
    )
    find_jars = "import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), 'jars'))"
    jars = subprocess.run([args.python, "-c", find_jars], check=True, capture_output=True, text=True).stdout.strip()
    conf = os.path.join(args.data, "conf")
    os.makedirs(conf)
    with open(f"{conf}/core-site.xml", "w") as file:
        file.write("<configuration><property><name>dfs.replication</name><value>2</value></property></configuration>")
    shell = ["java", "-cp", f"{conf}:{jars}/*", "org.apache.hadoop.fs.FsShell", "-fs", namenode.replace("http:", "webhdfs:")]
    yield "Hadoop's FsShell", [*shell, "-put", local, "/f"], [*shell, "-get", "/f", back]


def large_file(args):
    units = {"k": 10, "m": 20, "g": 30}
    size = int(args.size[:-1]) << units[args.size[-1].lower()]
    with cluster_of(args) as (words, pids):
        os.environ.update(HADOOP_USER_NAME=USER, HANNO_NAMENODE=words["namenode"])
        local, back = os.path.join(args.data, "file"), os.path.join(args.data, "back")
        with open(local, "wb") as file:
            for _ in range(size // len(POOL)):
                file.write(POOL)
        measured = Measured(pids, size // len(POOL) * len(POOL))
        clients = list(ways(args, words["namenode"], local, back))
        for _ in range(args.rounds):
            for client, up, down in clients:
                # One after the other, so that the disk holds one of them at a time.
                measured.run(client, "up", up)
                measured.run(client, "down", down)
                subprocess.run(["cmp", local, back], check=True)
                os.remove(back)
                subprocess.run([args.hanno, "dfs", "-rm", "-skipTrash", "/f"], check=True, stdout=subprocess.DEVNULL)
        return 0 if measured.table(args.ratio_min) else 1


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
mode.add_argument("--ratio-min", type=float, default=RATIO_MIN)
mode.add_argument("--python", help="measures HdfsCLI, fsspec, OpenDAL and FsShell (from pyspark's jars) too, which this Python has")
mode.set_defaults(run=large_file)
args = parser.parse_args()
sys.exit(args.run(args))
