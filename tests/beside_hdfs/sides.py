"""Both sides: Apache's tools in one JVM with their cluster, and the program under test with its own. Each runs the same command in the same directory of
this machine, and can be emptied."""

import os
import shutil
import struct
import subprocess

# Who runs both clusters.
SUPERUSER = "tester"
CLASSES = {
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
    "getconf": "org.apache.hadoop.hdfs.tools.GetConf",
    "groups": "org.apache.hadoop.hdfs.tools.GetGroups",
    "lsSnapshottableDir": "org.apache.hadoop.hdfs.tools.snapshot.LsSnapshottableDir",
    "lsSnapshot": "org.apache.hadoop.hdfs.tools.snapshot.LsSnapshot",
    "snapshotDiff": "org.apache.hadoop.hdfs.tools.snapshot.SnapshotDiff",
    "storagepolicies": "org.apache.hadoop.hdfs.tools.StoragePolicyAdmin",
    "cacheadmin": "org.apache.hadoop.hdfs.tools.CacheAdmin",
    "crypto": "org.apache.hadoop.hdfs.tools.CryptoAdmin",
    "ec": "org.apache.hadoop.hdfs.tools.ECAdmin",
    "debug": "org.apache.hadoop.hdfs.tools.DebugAdmin",
    "haadmin": "org.apache.hadoop.hdfs.tools.DFSHAAdmin",
}


class Theirs:
    """Apache's."""

    name = "Apache"

    def __init__(self, home, local, rpc):
        options = [
            "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1g", "-Djava.security.manager=allow", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC",
            f"-Djava.io.tmpdir={home}/theirs/tmp", f"-Dlog4j.configuration=file:{home}/theirs/conf/log4j.properties",
        ]
        os.makedirs(f"{home}/theirs/tmp")
        classpath = f"{home}/theirs/conf:{home}/classes:{home}/jars/*"
        self.log = open(f"{home}/theirs/stderr", "wb")
        variables = {**os.environ, "HADOOP_USER_NAME": SUPERUSER, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        self.process = subprocess.Popen(
            ["java", *options, "-cp", classpath, "Beside", f"{home}/theirs", "3"],
            cwd=local, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
        )
        self.prefix = f"hdfs://127.0.0.1:{rpc}"

    def call(self, user, stdin, name, arguments):
        words = [word.encode() for word in (user, stdin, name, *arguments)]
        framed = b"".join(struct.pack(">i", len(word)) + word for word in words)
        self.process.stdin.write(struct.pack(">i", len(words)) + framed)
        self.process.stdin.flush()
        code = self.number()
        return code & 255, self.read(self.number()), self.read(self.number())

    def read(self, count):
        found = self.process.stdout.read(count)
        if len(found) < count:
            raise SystemExit(f"the JVM ended; see {self.log.name}")
        return found

    def number(self):
        return struct.unpack(">i", self.read(4))[0]

    def run(self, user, tool, arguments, stdin):
        return self.call(user, stdin, CLASSES[tool], arguments)

    def reset(self):
        code, _, err = self.call(SUPERUSER, "", "reset", [])
        if code:
            raise SystemExit(f"the name space cannot be emptied: {err.decode()}")

    def stop(self):
        self.process.kill()
        self.process.wait()


class Ours:
    """The program under test."""

    name = "Hanno"

    def __init__(self, home, local, hanno, http, rpc):
        self.home, self.local, self.links = home, local, f"{home}/ours/links"
        self.log = open(f"{home}/ours/stderr", "wb")
        os.makedirs(self.links)
        subprocess.run([hanno, "install-links", self.links], check=True, stdout=subprocess.DEVNULL)
        variables = {
            **os.environ, "HADOOP_USER_NAME": SUPERUSER, "TZ": "UTC", "HANNO_NAMENODE_BLOCK_SIZE_MIN": "1024", "HANNO_NAMENODE_GROUPS": "static",
            "HANNO_NAMENODE_STATIC_GROUPS": "{" + ", ".join(f'{user} = {list(groups)}' for user, groups in GROUPS.items()) + "}",
            "HANNO_NAMENODE_HEARTBEAT_MS": "500",
        }
        command = [hanno, "cluster", "--data", f"{home}/ours/cluster", "--auth", "simple", "--datanodes", "3", "--workers", "1", "--port-base", str(http)]
        self.process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=self.log)
        line = self.process.stdout.readline().decode()
        if not line.startswith("ready "):
            raise SystemExit(f"the cluster does not start; see {self.log.name}")
        self.prefix = f"hanno://127.0.0.1:{http}"
        self.variables = {
            "HANNO_CONFIG": line.split("config=")[1].strip(), "HANNO_ALIASES": f"hdfs://127.0.0.1:{rpc}", "TZ": "UTC", "HOME": home,
            "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
        }

    def run(self, user, tool, arguments, stdin=""):
        with open(stdin or "/dev/null", "rb") as opened:
            done = subprocess.run(
                [f"{self.links}/hdfs", tool, *arguments], cwd=self.local, env={**self.variables, "HADOOP_USER_NAME": user}, stdin=opened,
                capture_output=True, timeout=120,
            )
        return done.returncode, done.stdout, done.stderr

    def words(self, *words):
        return self.run(SUPERUSER, words[0], words[1:])[1].decode().splitlines()

    def reset(self):
        self.words("dfsadmin", "-safemode", "leave")
        for line in self.words("lsSnapshottableDir"):
            directory = line.split(None, 9)[-1] if line else "/"
            for snapshot in self.words("dfs", "-ls", "-C", f"{directory}/.snapshot"):
                self.words("dfs", "-deleteSnapshot", directory, snapshot.rsplit("/", 1)[1])
            self.words("dfsadmin", "-disallowSnapshot", directory)
        entries = [path for path in self.words("dfs", "-ls", "-C", "/") if path]
        if entries:
            self.words("dfs", "-rm", "-r", "-f", "-skipTrash", "/*")
        self.words("dfs", "-setfacl", "-b", "/")
        self.words("dfs", "-chmod", "755", "/")
        self.words("dfs", "-chown", f"{SUPERUSER}:supergroup", "/")
        for line in self.words("dfs", "-getfattr", "-d", "/")[1:]:
            self.words("dfs", "-setfattr", "-x", line.split("=")[0], "/")
        self.words("dfsadmin", "-clrQuota", "/")
        self.words("dfsadmin", "-clrSpaceQuota", "/")
        left = self.words("dfs", "-ls", "-C", "/")
        if left:
            raise SystemExit(f"the name space cannot be emptied: {left}")

    def stop(self):
        self.process.terminate()
        self.process.wait()


# The groups of the users of the lines, on both sides.
GROUPS = {
    SUPERUSER: ["supergroup"], "alice": ["staff", "users"], "bob": ["staff"], "carol": ["carol"], "dave": [], "eve": ["supergroup"],
}

# A user without a group and a home.
NOBODY = "mallory"

LOG4J = """log4j.rootLogger=WARN,file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={home}/theirs/log
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %c: %m%n
"""


def prepare(home, http, rpc):
    """Fresh directories and the settings of Apache's side: small blocks, quick heartbeats, loopback alone."""
    for side in ("theirs", "ours"):
        shutil.rmtree(f"{home}/{side}", ignore_errors=True)
        os.makedirs(f"{home}/{side}/conf")
    # Daemons look for their pages, which nobody reads here.
    for pages in ("hdfs", "datanode"):
        os.makedirs(f"{home}/theirs/conf/webapps/{pages}")
    mapping = ";".join(f"{user}={','.join(groups)}" for user, groups in GROUPS.items())
    core = {"fs.defaultFS": f"hdfs://127.0.0.1:{rpc}", "hadoop.user.group.static.mapping.overrides": f"{mapping};", "fs.trash.interval": 1440,
            "fs.trash.checkpoint.interval": 60, "hadoop.tmp.dir": f"{home}/theirs/tmp"}
    hdfs = {
        "dfs.replication": 3, "dfs.namenode.fs-limits.min-block-size": 1024, "dfs.namenode.http-address": f"127.0.0.1:{rpc + 1}",
        "dfs.namenode.rpc-address": f"127.0.0.1:{rpc}", "dfs.datanode.address": "127.0.0.1:0", "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0", "dfs.datanode.hostname": "localhost", "dfs.heartbeat.interval": 1,
        "dfs.namenode.redundancy.interval.seconds": "1s", "dfs.namenode.safemode.min.datanodes": 3, "dfs.namenode.safemode.extension": 0,
        "dfs.permissions.superusergroup": "supergroup", "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.datanode.du.reserved": 0, "dfs.namenode.secondary.http-address": f"127.0.0.1:{rpc + 2}",
    }
    for name, settings in (("core", core), ("hdfs", hdfs)):
        properties = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings.items())
        with open(f"{home}/theirs/conf/{name}-site.xml", "w") as file:
            file.write(f"<configuration>{properties}</configuration>")
    # They are of a jar that nothing else needs, and FsShell does not start without them.
    for name in ("hdfs-rbf-default", "hdfs-rbf-site"):
        with open(f"{home}/theirs/conf/{name}.xml", "w") as file:
            file.write("<configuration></configuration>")
    with open(f"{home}/theirs/conf/log4j.properties", "w") as file:
        file.write(LOG4J.replace("{home}", home))
