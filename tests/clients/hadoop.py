"""Hadoop's own FsShell (from the jars that pyspark brings) over webhdfs://, compared with `hanno dfs`: the same words, the same exit
codes, the same trees.

One JVM runs all commands. A command that changes something is run twice, by FsShell below one directory and by `hanno dfs` below
another, and what is told and what is left must be the same but for the directory's name. Needs HANNO (the binary) and HADOOP_JARS."""

import difflib
import gzip
import os
import re
import subprocess
import sys
import tempfile

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from common import NAMENODE, NAMES, ROOT, USER, data, equal, escaped

HANNO, JARS = os.environ["HANNO"], os.environ["HADOOP_JARS"]
os.environ.update(HADOOP_USER_NAME=USER, HANNO_NAMENODE=NAMENODE, TZ="UTC")
work = tempfile.mkdtemp(prefix="hadoop-")
base = f"{ROOT}/hadoop"
# Of one length, so that columns are as wide.
THEIRS, OURS = f"{base}/their", f"{base}/ours_"


def local(name):
    return os.path.join(work, name)


def write_local(name, content):
    with open(local(name), "wb") as file:
        file.write(content)
    return local(name)


def start_jvm():
    write_local("log4j.properties", b"log4j.rootLogger=OFF\n")
    # Java clients say how many replicas they want; `hanno dfs` leaves it to the NameNode, which has two DataNodes here.
    settings = {"fs.defaultFS": NAMENODE.replace("http:", "webhdfs:"), "dfs.replication": "2"}
    properties = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
    write_local("core-site.xml", f"<configuration>{properties}</configuration>".encode())
    options = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Dlog4j2.level=OFF", "-Dlog4j.configuration=log4j.properties"]
    port, token = launch_gateway(
        classpath=f"{work}:{JARS}/*", javaopts=options, die_on_exit=True, enable_auth=True,
        jarpath=os.path.join(JARS, next(name for name in os.listdir(JARS) if name.startswith("py4j"))),
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))


gateway = start_jvm()
java, apache = gateway.jvm.java, gateway.jvm.org.apache.hadoop


def hadoop(*words, stdin=b""):
    """Exit code, output and errors of FsShell."""
    out, err = java.io.ByteArrayOutputStream(), java.io.ByteArrayOutputStream()
    system = java.lang.System
    system.setOut(java.io.PrintStream(out, True, "UTF-8"))
    system.setErr(java.io.PrintStream(err, True, "UTF-8"))
    system.setIn(java.io.FileInputStream(write_local("stdin", stdin)))
    arguments = gateway.new_array(java.lang.String, len(words))
    for index, word in enumerate(words):
        arguments[index] = word
    shell = apache.fs.FsShell(apache.conf.Configuration())
    code = apache.util.ToolRunner.run(shell, arguments)
    shell.close()
    return code & 255, bytes(out.toByteArray()), bytes(err.toByteArray())


def hanno(*words, stdin=b""):
    """The same of `hanno dfs`."""
    done = subprocess.run([HANNO, "dfs", *words], input=stdin, capture_output=True)
    return done.returncode, done.stdout, done.stderr


differing = []


# After what it calls a usage error FsShell prints the list of all commands before the usage of the one: `hanno dfs` leaves it out.
ALL_COMMANDS = re.compile(rb"Usage: hadoop fs \[generic options\]\n\t.*?command \[genericOptions\] \[commandOptions\]\n\n", re.DOTALL)
# Each names files of the cluster under its own scheme, and says it in places where the other does not.
AUTHORITY = re.compile(rb"(webhdfs|hanno)://[0-9.]+:[0-9]+")


def told(answer):
    code, out, err = answer
    return code, AUTHORITY.sub(b"", out), AUTHORITY.sub(b"", ALL_COMMANDS.sub(b"", err))


def compare(words, theirs, ours):
    for what, their, our in zip(("exit code", "output", "errors"), told(theirs), told(ours)):
        if their != our:
            differing.append(words)
            print(f"dfs {' '.join(words)}: {what}")
            if what == "exit code":
                print(f"-{their}\n+{our}")
            else:
                lines = [text.decode(errors="replace").splitlines() for text in (their, our)]
                print("\n".join(list(difflib.unified_diff(*lines, lineterm="", n=0))[2:12]))


def same(*words):
    """A question, to the same directory."""
    compare(words, hadoop(*words), hanno(*words))


def done(*words, stdin=b"", errors=True):
    """A change, to a directory each; `{d}` stands for it. `{l}` is a local directory of their own."""
    answers = []
    for run, directory, folder in ((hadoop, THEIRS, "their"), (hanno, OURS, "ours_")):
        filled = [word.replace("{d}", directory).replace("{l}", local(folder)) for word in words]
        code, out, err = run(*filled, stdin=stdin)
        marked = [text.replace(directory.encode(), b"{d}").replace(local(folder).encode(), b"{l}") for text in (out, err)]
        answers.append((code, marked[0], marked[1] if errors else b""))
    compare(words, *answers)


def local_files(folder):
    found = {}
    for directory, _, names in os.walk(local(folder)):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, local(folder))] = file.read()
    return found


def changes():
    """Every command that changes something, and its commonest refusals."""
    big, lines = write_local("big", data(3_000_000)), write_local("lines", b"one\ntwo\n")
    write_local("packed.gz", gzip.compress(b"unpacked\n", mtime=0))
    done("-mkdir", "-p", "{d}/sub/deeper")
    done("-mkdir", "{d}/sub")
    done("-mkdir", "{d}/none/x")
    done("-put", big, "{d}/big")
    done("-put", big, "{d}/big")
    done("-put", "-f", big, "{d}/big")
    done("-put", "-", "{d}/lines", stdin=b"one\ntwo\n")
    done("-put", big, lines, "{d}/sub")
    done("-put", big, lines, "{d}/big")
    done("-put", local("absent"), "{d}/absent")
    done("-put", lines, "{d}/none/lines")
    done("-copyFromLocal", "-p", lines, local("packed.gz"), "{d}/sub/deeper")
    for folder in ("their", "ours_"):
        os.makedirs(local(folder), exist_ok=True)
        write_local(f"{folder}/moving", b"moved")
    done("-moveFromLocal", "{l}/moving", "{d}/moved")
    done("-appendToFile", lines, "{d}/lines")
    done("-appendToFile", "-", "{d}/grown", stdin=b"grown")
    done("-touchz", "{d}/empty")
    done("-touchz", "{d}/big")
    done("-touch", "-t", "20240102:030405", "{d}/empty", "{d}/new")
    done("-touch", "-c", "{d}/absent")
    done("-cp", "{d}/lines", "{d}/copy")
    done("-cp", "{d}/lines", "{d}/copy")
    done("-cp", "{d}/lines", "{d}/copied")
    done("-cp", "-f", "-p", "{d}/lines", "{d}/copy")
    done("-cp", "{d}/sub", "{d}/tree")
    done("-cp", "{d}/absent", "{d}/x")
    done("-mv", "{d}/copy", "{d}/sub/copy")
    done("-mv", "{d}/absent", "{d}/x")
    done("-mv", "{d}/lines", "{d}/big")
    done("-chmod", "640", "{d}/lines")
    done("-chmod", "-R", "u+rwx,g-w,o=r", "{d}/tree")
    done("-chmod", "999", "{d}/lines")
    done("-chmod", "600", "{d}/absent")
    done("-chown", "alice:staff", "{d}/lines")
    done("-chown", "-R", "bob", "{d}/tree")
    done("-chgrp", "etl", "{d}/lines")
    done("-setrep", "1", "{d}/big")
    done("-setrep", "-R", "1", "{d}/sub")
    done("-setrep", "0", "{d}/big")
    done("-setfacl", "-m", "user:carol:rw-", "{d}/lines")
    done("-setfacl", "-m", "default:user:carol:rwx", "{d}/sub")
    done("-getfacl", "{d}/sub")
    done("-setfacl", "-x", "user:carol", "{d}/lines")
    done("-setfacl", "-b", "{d}/sub")
    done("-getfacl", "-R", "{d}/sub")
    done("-setfattr", "-n", "user.a", "-v", "v", "{d}/lines")
    done("-setfattr", "-n", "user.b", "{d}/big")
    done("-getfattr", "-d", "{d}/big")
    done("-getfattr", "-n", "user.a", "-e", "hex", "{d}/lines")
    done("-setfattr", "-x", "user.b", "{d}/big")
    done("-setfattr", "-x", "user.b", "{d}/big")
    done("-getfattr", "-d", "{d}/lines")
    done("-truncate", "-w", "2000000", "{d}/sub/big")
    done("-concat", "{d}/grown", "{d}/moved")
    done("-concat", "{d}/grown", "{d}/moved", "{d}/copied")
    done("-cat", "{d}/grown")
    done("-get", "{d}/big", "{l}/big")
    done("-get", "{d}/big", "{l}/big")
    done("-get", "-f", "{d}/big", "{l}/big")
    done("-get", "{d}/sub", "{l}")
    done("-get", "{d}/absent", "{l}/x")
    done("-copyToLocal", "{d}/lines", "{l}/lines")
    done("-getmerge", "-nl", "{d}/tree", "{l}/merged")
    done("-moveToLocal", "{d}/lines", "{l}/x")
    done("-createSnapshot", "{d}/sub", "s1")
    for directory in (THEIRS, OURS):
        subprocess.run([HANNO, "dfsadmin", "-allowSnapshot", f"{directory}/sub"], check=True, capture_output=True)
    done("-createSnapshot", "{d}/sub", "s1")
    done("-renameSnapshot", "{d}/sub", "s1", "s2")
    done("-ls", "-C", "{d}/sub/.snapshot")
    done("-cat", "{d}/sub/.snapshot/s2/lines")
    done("-rm", "-r", "-skipTrash", "{d}/sub")
    done("-deleteSnapshot", "{d}/sub", "s2")
    done("-rmdir", "{d}/tree")
    done("-rmdir", "--ignore-fail-on-non-empty", "{d}/tree")
    done("-mkdir", "{d}/bare")
    done("-rmdir", "{d}/bare")
    done("-rm", "{d}/tree")
    done("-rm", "{d}/absent")
    done("-rm", "-f", "{d}/absent")
    done("-rm", "-skipTrash", "{d}/empty")
    done("-rm", "{d}/new", errors=False)
    done("-expunge", errors=False)


def questions():
    """Every command that only looks, at one tree."""
    d = THEIRS
    for words in (
        ["-ls", d], ["-ls", "-R", d], ["-ls", "-C", d], ["-ls", "-d", d], ["-ls", "-h", d], ["-ls", "-t", d], ["-ls", "-S", "-r", d],
        ["-ls", "-u", d], ["-ls", f"{d}/absent"], ["-ls", f"{d}/l*"], ["-ls", f"{d}/none*"], ["-ls", f"{NAMENODE.replace('http', 'webhdfs')}{d}"],
        ["-cat", f"{d}/lines"], ["-cat", d], ["-cat", f"{d}/absent"], ["-text", f"{d}/tree/deeper/packed.gz"], ["-head", f"{d}/lines"],
        ["-tail", f"{d}/lines"], ["-tail", d], ["-head", f"{d}/absent"],
        ["-stat", "%n %b %o %r %u %g %F %a %A %y %Y", f"{d}/lines", f"{d}/tree"], ["-stat", f"{d}/lines"], ["-stat", f"{d}/absent"],
        ["-count", d, f"{d}/tree"], ["-count", "-v", d], ["-count", "-h", d], ["-count", "-q", d], ["-count", "-u", d], ["-count", f"{d}/absent"],
        ["-du", d], ["-du", "-s", d], ["-du", "-h", d], ["-du", "-v", d], ["-du", f"{d}/absent"],
        ["-find", d], ["-find", d, "-name", "l*"], ["-find", d, "-iname", "LINES", "-print"], ["-find", f"{d}/absent"],
        ["-checksum", f"{d}/big", f"{d}/lines"], ["-checksum", "-v", f"{d}/lines"], ["-checksum", d],
        ["-getfacl", d], ["-getfattr", "-d", d], ["-getfattr", "-n", "user.z", f"{d}/lines"],
        ["-test", "-d", d], ["-test", "-e", f"{d}/absent"], ["-test", "-f", d], ["-test", "-s", f"{d}/lines"], ["-test", "-z", f"{d}/lines"],
        ["-test", "-r", f"{d}/lines"], ["-test", "-w", d],
        ["-mkdir"], ["-cat"], ["-touchz", "a", "b"], ["-usage", "mkdir"], ["-usage", "test"],
    ):
        same(*words)


def names():
    """Names of every kind: what the one writes the other reads."""
    hanno("-mkdir", "-p", f"{base}/names")

    for name in NAMES:
        path, content = f"{base}/names/{escaped(name)}", name.encode()
        writer, reader = (hadoop, hanno) if len(name) % 2 else (hanno, hadoop)
        equal(writer("-put", "-d", "-", path, stdin=content), (0, b"", b""), f"put of {name}")
        for run in (hadoop, hanno):
            equal(run("-cat", f"{base}/names/{escaped(name)}"), (0, content, b""), f"cat of {name}")
        equal(reader("-mv", path, f"{base}/moving"), (0, b"", b""), f"mv of {name}")
        equal(writer("-mv", f"{base}/moving", path), (0, b"", b""), f"mv to {name}")
        equal(reader("-get", path, local("name")), (0, b"", b""), f"get of {name}")
        with open(local("name"), "rb") as file:
            equal(file.read(), content, f"content of {name}")
        os.remove(local("name"))
    # FsShell orders what it lists by encoded names.
    lists = [sorted(run("-ls", f"{base}/names")[1].splitlines()) for run in (hadoop, hanno)]
    equal(lists[1], lists[0], "the list of names")
    for number, name in enumerate(NAMES):
        run = hadoop if number % 2 else hanno
        equal(run("-rm", "-skipTrash", f"{base}/names/{escaped(name)}")[0], 0, f"rm of {name}")
    equal(hanno("-ls", f"{base}/names"), (0, b"", b""), "the emptied directory")


def tree(directory):
    """What is below it but for the times."""
    listed = hanno("-find", directory)[1].decode().split("\n")[:-1]
    told = hanno("-stat", "%F %a %u %g %b %r %o", *listed)[1].decode().split("\n")
    sums = hanno("-checksum", *[path for path, line in zip(listed, told) if line.startswith("regular")])[1].decode()
    return [path.replace(directory, "{d}") for path in listed], told, sums.replace(directory, "{d}")


hanno("-rm", "-r", "-f", "-skipTrash", base)
hanno("-mkdir", "-p", THEIRS, OURS)
changes()
for their, our, what in zip(tree(THEIRS), tree(OURS), ("paths", "attributes", "checksums")):
    equal(our, their, f"{what} of both trees")
equal(local_files("ours_"), local_files("their"), "local files")
questions()
names()
hanno("-rm", "-r", "-skipTrash", base)
subprocess.run(["rm", "-rf", work], check=True)
if differing:
    sys.exit(f"{len(differing)} commands differ")
print("Hadoop's shell: ok")
