"""Where examples run: in one process with `--local`, and on the cluster of the environment."""

import os
import subprocess

HANNO = os.environ["HANNO"]
EXAMPLES = os.path.join(os.path.dirname(HANNO), "examples")
# Splits so small that most jobs have several maps.
OPTIONS = ["--quiet", "-D", "mapreduce.input.fileinputformat.split.maxsize=100000"]


def output(words):
    """Runs a command; returns the bytes that it printed."""
    done = subprocess.run(words, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.decode().strip()[-2000:]}")
    return done.stdout


def run(words):
    """Runs a command; returns the text that it printed."""
    return output(words).decode()


class Local:
    """This machine's files, and no cluster."""

    name = "local"

    def __init__(self, scratch):
        self.scratch = os.path.join(scratch, "local")
        os.makedirs(self.scratch, exist_ok=True)
        self.count = 0

    def fresh(self):
        """A path that is not there yet."""
        self.count += 1
        return os.path.join(self.scratch, f"path{self.count}")

    def give(self, text):
        """A file with this text."""
        path = self.fresh()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def example(self, name, *words):
        """Runs an example; returns what it printed."""
        return run([os.path.join(EXAMPLES, name), "--local", *OPTIONS, *map(str, words)])

    def bytes(self, path):
        """The parts of an output, one after the other."""
        parts = []
        for part in sorted(os.listdir(path)):
            if part.startswith("part-"):
                with open(os.path.join(path, part), "rb") as file:
                    parts.append(file.read())
        return b"".join(parts)

    def lines(self, path):
        """The lines of an output."""
        return self.bytes(path).decode().split("\n")[:-1]

    def side_file(self, path):
        """A file as `--files` takes it."""
        return path


class Cluster(Local):
    """The cluster's file system, and its workers."""

    name = "cluster"

    def __init__(self, scratch):
        super().__init__(scratch)
        run([HANNO, "dfs", "-mkdir", "-p", "/judges"])

    def fresh(self):
        self.count += 1
        return f"/judges/path{self.count}"

    def give(self, text):
        path = self.fresh()
        local = os.path.join(self.scratch, "put")
        with open(local, "w", encoding="utf-8") as file:
            file.write(text)
        run([HANNO, "dfs", "-put", local, path])
        return path

    def example(self, name, *words):
        return run([os.path.join(EXAMPLES, name), *OPTIONS, *map(str, words)])

    def bytes(self, path):
        return output([HANNO, "dfs", "-cat", f"{path}/part-*"])

    def side_file(self, path):
        return f"hdfs://{path}"
