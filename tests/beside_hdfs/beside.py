"""The shell beside Apache HDFS: runs every line of `lines/` on both, and compares exit codes, output, errors, and what is left. See run.sh.

A file of lines has scenarios. Each starts with an empty name space and an empty directory on this machine:

    == a name                     begins a scenario
    # a remark
    ! printf x > a                set-up by sh, in the local directory, of each side
    dfs -put a /a                 a command of `hdfs`, as the superuser
    alice: dfs -ls /a             as another user
    dfs -put - /b << text         with standard input; `{nl}` and the like also here

Words are split as sh does, without its expansions. `{fs}` is the address of the file system in Apache's form, `{local}` the local directory, `{tab}`,
`{nl}` and `{x255}` are characters. What differs must be in accepted.txt, and what is there must differ: with the same texts, which a checksum of both
tells."""

import argparse
import atexit
import difflib
import json
import os
import pickle
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib

from sides import CLASSES, GROUPS, NOBODY, SUPERUSER, Ours, Theirs, prepare

HERE = os.path.dirname(os.path.abspath(__file__))
FIELDS = ("code", "out", "err")
# A command that takes longer is named.
SLOW_SECONDS = 3
# One that takes longer waits for something that never comes.
COMMAND_SECONDS_MAX = 180
# Of what is asked after each scenario; it makes kept answers old.
VERSION = 1


class Line:
    """One command line, or a local set-up."""

    def __init__(self, text, key, fill):
        self.text, self.key = text, key
        self.user, self.stdin, self.setup = SUPERUSER, b"", None
        if text.startswith("! "):
            self.setup = fill(text[2:])
            return
        text, separator, stdin = text.partition(" << ")
        if separator:
            self.stdin = fill(stdin).encode()
        user, separator, rest = text.partition(": ")
        if separator and user in (*GROUPS, NOBODY):
            self.user, text = user, rest
        self.tool, *self.words = [fill(word) for word in shlex.split(text)]
        if self.tool not in CLASSES:
            raise SystemExit(f"{key}: {self.tool} is no tool")


def scenarios(path, fill):
    found, name = {}, os.path.basename(path).removesuffix(".txt")
    with open(path, encoding="utf-8") as file:
        for text in file.read().split("\n"):
            if text.startswith("== "):
                scenario = f"{name}/{text[3:].strip()}"
                if scenario in found:
                    raise SystemExit(f"{scenario} is there twice")
                lines, seen = found.setdefault(scenario, []), {}
            elif text.strip() and not text.startswith("#"):
                seen[text] = seen.get(text, 0) + 1
                count = f" #{seen[text]}" if seen[text] > 1 else ""
                lines.append(Line(text, f"{scenario}: {text}{count}", fill))
    return found


# What may be in any output and must differ.
SHARED = [
    (re.compile(r"blk_-?\d+(_\d+)?"), "blk_N"),
    (re.compile(r"BP-[0-9a-f.-]+"), "BP-N"),
    (re.compile(r"DS-[0-9a-f-]{32,36}"), "DS-N"),
    (re.compile(r"92233720368547\d{5}"), "MAX"),
    # Times of today; others were set.
    (re.compile(r"{today}[ T]\d\d:\d\d(:\d\d(\.\d+)?)?"), "NOW"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} \d\d \d\d:\d\d:\d\d [A-Z+:0-9]+ \d{4}"), "NOW"),
    (re.compile(r"(?<!\d)1[78]\d{11}(?!\d)"), "MILLISECONDS"),
    (re.compile(r"\.Trash/\d{12}(-\d+)?"), ".Trash/CHECKPOINT"),
    (re.compile(r"\bs\d{8}-\d{6}\.\d{3}\b"), "sDATE"),
    (re.compile(r" in \d+ milliseconds"), " in N milliseconds"),
    (re.compile(r"(?m)^(Waiting for \S+ )\.+"), r"\1..."),
    (re.compile(r"txid \d+"), "txid N"),
    # Reports: what this machine has, and how Apache's side calls it.
    (re.compile(r"\b\d+ \([\d.]+ [KMGTP]?B\)"), "SIZE"),
    (re.compile(r"%: [\d.]+%"), "%: N%"),
    (re.compile(r"(Pending deletion blocks|Num of Blocks|Xceivers): \d+"), r"\1: N"),
    (re.compile(r"(127\.0\.0\.1:\d+ \()[^)]*\)"), r"\1NAME)"),
    (re.compile(r"Hostname: .*"), "Hostname: NAME"),
    (re.compile(r"(?m)^(\{fs\}) +\d+ +\d+ +\d+ +\d+%$"), r"\1 ROOM"),
    (re.compile(r"Filesystem +Size +Used +Available +Use%"), "Filesystem ROOM"),
]
# After what it calls a usage error FsShell prints the list of all commands before the usage of the one.
ALL_COMMANDS = re.compile(r"Usage: hadoop fs \[generic options\]\n\t.*?command \[genericOptions\] \[commandOptions\]\n\n", re.DOTALL)
GENERIC = re.compile(r"Generic options supported are:?\n.*?command \[genericOptions\] \[commandOptions\]\n\n?", re.DOTALL)
TRACE = re.compile(r"^(\tat .*|\t\.\.\. \d+ more|Caused by: .*)\n", re.MULTILINE)


class Normaliser:
    """Takes out of a text what must differ: addresses, times, numbers of blocks, Java's stack traces."""

    def __init__(self, theirs, ours, today, local):
        self.local, self.host = local, socket.gethostname()
        # An address that a line has typed is the same on both sides, and stays.
        self.shared = [(re.compile(pattern.pattern.replace("{today}", today), pattern.flags), text) for pattern, text in SHARED]
        self.theirs, self.ours = theirs, ours

    def text(self, raw, is_theirs):
        text = raw.decode("utf-8", "surrogateescape")
        text = ALL_COMMANDS.sub("", text)
        text = GENERIC.sub("", text)
        text = TRACE.sub("", text)
        # What Hanno has besides.
        text = text.replace(" [--json]", "")
        text = text.replace(self.local, "{local}").replace(f"Call From {self.host}/", "Call From HOST/")
        for address in (self.theirs, self.ours):
            text = text.replace(address, "{fs}").replace(address.split("//")[1], "{nn}")
        for pattern, to in self.shared:
            text = pattern.sub(to, text)
        text = re.sub(r"(127\.0\.0\.1|localhost):\d+|\{nn\}", "127.0.0.1:PORT", text)
        return text.replace("hdfs://127.0.0.1:PORT", "{fs}")


def sorted_values(output):
    """Extended attributes, in each file's block by name."""
    blocks = re.split(rb"(?m)^(?=# file: )", output)
    lines = [block.split(b"\n") for block in blocks]
    return b"".join(b"\n".join([block[0], *sorted(line for line in block[1:] if line), b"", b""]) if len(block) > 1 else block[0] for block in lines)


def local_tree(root):
    """Every path with its type, mode and content."""
    found = []
    for directory, names, files in os.walk(root):
        names.sort()
        for name in sorted(names + files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = "directory"
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    content = f"{status.st_size} bytes {zlib.crc32(file.read()):08x}"
            found.append(f"{os.path.relpath(path, root)} {status.st_mode & 0o7777:o} {content}")
    return "\n".join(found).encode("utf-8", "surrogateescape")


# What is asked of the name space after each scenario.
DUMP = [
    ("tree", ["dfs", "-ls", "-R", "/"]),
    ("attributes", ["dfs", "-getfattr", "-R", "-d", "-e", "hex", "/"]),
    ("acls", ["dfs", "-getfacl", "-R", "/"]),
    ("quotas", ["dfs", "-count", "-q", "-v", "/*"]),
]


class Run:
    def __init__(self, options):
        self.home, self.local = options.home, f"{options.home}/local"
        shutil.rmtree(self.local, ignore_errors=True)
        os.makedirs(self.local)
        prepare(self.home, options.http, options.rpc)
        self.ours = Ours(self.home, self.local, options.hanno, options.http, options.rpc) if options.hanno else None
        self.rpc, self.started = options.rpc, None
        atexit.register(lambda: [side.stop() for side in (self.ours, self.started) if side])
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, lambda number, _: sys.exit(f"ended by signal {number}"))
        self.today = time.strftime("%Y-%m-%d", time.gmtime())
        self.prefix = f"hdfs://127.0.0.1:{options.rpc}"
        self.normaliser = Normaliser(self.prefix, self.ours.prefix if self.ours else self.prefix, self.today, self.local)
        self.seconds = {"Apache": 0.0, "Hanno": 0.0}
        self.kept_path = f"{self.home}/kept"
        self.kept = {}
        if os.path.exists(self.kept_path) and not options.fresh:
            with open(self.kept_path, "rb") as file:
                self.kept = pickle.load(file)

    def theirs(self):
        """Apache's side, which starts when it is needed: an answer of today to the same lines is kept."""
        if self.started is None:
            self.started = Theirs(self.home, self.local, self.rpc)
            # The thread that answers first starts.
            self.started.run(SUPERUSER, "dfs", ["-ls", "/"], "")
        return self.started

    def their_answers(self, name, lines):
        what = (self.today, self.home, self.rpc, VERSION, [(line.text, line.setup) for line in lines])
        if self.kept.get(name, (None, None))[0] != what:
            self.kept[name] = (what, self.side(self.theirs(), lines))
            with open(self.kept_path, "wb") as file:
                pickle.dump(self.kept, file)
        return self.kept[name][1]

    def fill(self, text):
        text = text.replace("{fs}", self.prefix).replace("{local}", self.local).replace("{tab}", "\t").replace("{nl}", "\n")
        text = text.replace("{authority}", self.prefix.split("//")[1])
        return re.sub(r"\{x(\d+)\}", lambda found: "x" * int(found.group(1)), text)

    def side(self, side, lines):
        """All answers of one side, and what is left."""
        side.reset()
        os.umask(0o022)
        for name in os.listdir(self.local):
            path = os.path.join(self.local, name)
            shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
        for path, user in (("/user", SUPERUSER), ("/tmp", SUPERUSER), *((f"/user/{user}", user) for user in GROUPS)):
            side.run(SUPERUSER, "dfs", ["-mkdir", path], "")
            if user != SUPERUSER:
                side.run(SUPERUSER, "dfs", ["-chown", f"{user}:{(GROUPS[user] or ['none'])[0]}", path], "")
        side.run(SUPERUSER, "dfs", ["-chmod", "1777", "/tmp"], "")
        answers, started = [], time.monotonic()
        for line in lines:
            if line.setup is not None:
                subprocess.run(line.setup, shell=True, cwd=self.local, check=True)
                continue
            stdin = f"{self.home}/stdin"
            with open(stdin, "wb") as file:
                file.write(line.stdin)
            begun = time.monotonic()
            signal.alarm(COMMAND_SECONDS_MAX)
            answers.append(side.run(line.user, line.tool, line.words, stdin))
            if time.monotonic() - begun > SLOW_SECONDS:
                print(f"{line.key}: {side.name} took {time.monotonic() - begun:.0f} s", file=sys.stderr)
        signal.alarm(0)
        self.seconds[side.name] += time.monotonic() - started
        side.run(SUPERUSER, "dfsadmin", ["-safemode", "leave"], "")
        left = [(name, side.run(SUPERUSER, words[0], words[1:], "")) for name, words in DUMP]
        listed = side.run(SUPERUSER, "dfs", ["-find", "/"], "")[1].decode("utf-8", "surrogateescape").split("\n")[:-1]
        if listed:
            # A name that a pattern could be is its own match, with a backslash before what is special.
            escaped = [re.sub(r"([*?\[\]{}\\])", r"\\\1", path) for path in listed]
            left.append(("status", side.run(SUPERUSER, "dfs", ["-stat", "%F %a %u %g %b %r %o %n", *escaped], "")))
            left.append(("sums", side.run(SUPERUSER, "dfs", ["-checksum", *escaped], "")))
        left.append(("local", (0, local_tree(self.local), b"")))
        return answers, left

    def scenario(self, name, lines):
        """The differences: key, field, both texts."""
        theirs = self.their_answers(name, lines)
        ours = self.side(self.ours, lines) if self.ours else theirs
        commands = [line for line in lines if line.setup is None]
        keys = [line.key for line in commands] + [f"{name}: left {what}" for what, _ in theirs[1]]
        found = []
        for key, their, our in zip(keys, theirs[0] + [answer for _, answer in theirs[1]], ours[0] + [answer for _, answer in ours[1]]):
            pairs = [(str(their[0]), str(our[0]))]
            if "-getfattr" in key:
                # Apache's order is that of a hash table.
                their, our = ((answer[0], sorted_values(answer[1]), answer[2]) for answer in (their, our))
            pairs += [(self.normaliser.text(their[index], True), self.normaliser.text(our[index], False)) for index in (1, 2)]
            if ": left sums" in key or ": left attributes" in key:
                # Directories have no sums; both say it in errors.
                pairs = [("", ""), pairs[1], ("", "")]
            found += [(key, field, *pair) for field, pair in zip(FIELDS, pairs) if pair[0] != pair[1]]
        return len(commands), found


def accepted(path):
    """Keys of differences, `field@checksum` for each, under the reason."""
    found, reason = {}, ""
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            text = text.rstrip("\n")
            if text.startswith("## "):
                reason = text[3:]
            elif text and not text.startswith("# "):
                fields, _, key = text.partition(" ")
                if not reason or not key:
                    raise SystemExit(f"{path}:{number}: no reason or no line")
                found[key] = (dict(field.split("@") for field in fields.split(",")), reason)
    return found


def write_accepted(path, known, records, ran):
    """What is listed and still differs, with its present texts; what was not run stays."""
    with open(path, encoding="utf-8") as file:
        head = [text for text in file.read().split("\n") if text.startswith("# ")]
    now = {}
    for record in records:
        now.setdefault(record["key"], {})[record["field"]] = record["sum"]
    reasons = {}
    for key, (fields, reason) in known.items():
        fields = now.get(key, {}) if key.split(": ")[0] in ran else fields
        if fields:
            listed = ",".join(f"{field}@{sum}" for field, sum in fields.items())
            reasons.setdefault(reason, []).append(f"{listed} {key}")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(head) + "\n")
        for reason, lines in reasons.items():
            file.write("\n".join(["", f"## {reason}", *lines]) + "\n")


def checksum(their, our):
    return f"{zlib.crc32(json.dumps([their, our]).encode()):08x}"


def shown(key, field, their, our):
    print(f"{key}: {field}")
    if field == "code":
        print(f"  -{their}\n  +{our}")
        return
    lines = list(difflib.unified_diff(their.split("\n"), our.split("\n"), lineterm="", n=0))[2:]
    for line in lines[:40]:
        if not line.startswith("@@"):
            print(f"  {line[:400]}".encode("utf-8", "backslashreplace").decode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hanno", help="the program; without it Apache's answers are collected")
    parser.add_argument("--home", required=True)
    parser.add_argument("--http", type=int, default=21750)
    parser.add_argument("--rpc", type=int, default=21790)
    parser.add_argument("--renew", action="store_true", help="write accepted.txt anew for the keys that it has")
    parser.add_argument("--fresh", action="store_true", help="ask Apache's side again")
    parser.add_argument("--all", action="store_true", help="show accepted differences, too")
    parser.add_argument("files", nargs="*", help="names of files in lines/, or of scenarios FILE/NAME")
    options = parser.parse_args()
    known = accepted(f"{HERE}/accepted.txt")
    names = sorted(name.removesuffix(".txt") for name in os.listdir(f"{HERE}/lines"))
    chosen = lambda scenario: not options.files or any(scenario == word or scenario.split("/")[0] == word for word in options.files)
    run = Run(options)
    parsed = {}
    for name in names:
        parsed |= {key: lines for key, lines in scenarios(f"{HERE}/lines/{name}.txt", run.fill).items() if chosen(key)}
    count, met, fresh, records = 0, set(), 0, []
    for name, lines in parsed.items():
        commands, differences = run.scenario(name, lines)
        count += commands
        for key, field, their, our in differences:
            is_known = known.get(key, ({}, ""))[0].get(field) == checksum(their, our)
            met.add((key, field))
            fresh += not is_known
            records.append({"key": key, "field": field, "sum": checksum(their, our), "theirs": their, "ours": our, "known": is_known})
            if not is_known or options.all:
                shown(key, field, their, our)
    gone = [(key, field) for key, (fields, _) in known.items() for field in fields if (key, field) not in met and key.split(": ")[0] in parsed]
    for key, field in gone:
        print(f"{key}: {field} does not differ any more, but is in accepted.txt")
    if options.renew:
        write_accepted(f"{HERE}/accepted.txt", known, records, parsed)
    with open(f"{options.home}/differences.json", "w") as file:
        json.dump(records, file, indent=1)
    print(f"{count} lines in {len(parsed)} scenarios: Apache {run.seconds['Apache']:.0f} s, Hanno {run.seconds['Hanno']:.0f} s")
    print(f"{len(records)} differences, {len(records) - fresh} of them accepted")
    open_keys = [key for key, (_, reason) in known.items() if reason.startswith("Open: ")]
    print(f"{len(open_keys)} lines show what is still to be mended")
    if fresh or gone:
        sys.exit(f"{fresh} differences are new, {len(gone)} accepted ones are gone")


main()
