"""HdfsCLI (`pip install hdfs`): the calls of its documentation, their errors, and names of every kind."""

import os
import tempfile

from hdfs import InsecureClient, TokenClient
from hdfs.util import HdfsError

from common import NAMES, NAMENODE, ROOT, TOKEN, USER, data, equal, fails

root = f"{ROOT}/hdfscli"
client = TokenClient(NAMENODE, TOKEN, root=root) if TOKEN else InsecureClient(NAMENODE, user=USER, root=root)
client.delete("", recursive=True)
client.makedirs("")

# Writing and reading.
content = data(3_000_000)
client.write("model.bin", content)
with client.read("model.bin") as reader:
    equal(reader.read(), content, "read")
with client.read("model.bin", offset=1000, length=5000) as reader:
    equal(reader.read(), content[1000:6000], "read of a range")
with client.read("model.bin", chunk_size=65536) as reader:
    equal(b"".join(reader), content, "read in chunks")
with client.write("lines.txt", encoding="utf-8") as writer:
    for number in range(1000):
        writer.write(f"line {number} ü\n")
with client.read("lines.txt", encoding="utf-8", delimiter="\n") as reader:
    equal(sum(1 for line in reader if line), 1000, "lines")
client.write("gen", (bytes([n]) * 1000 for n in range(256)))
equal(client.status("gen")["length"], 256_000, "length of a generator's file")
client.write("empty", b"")
equal(client.status("empty")["length"], 0, "an empty file")
fails(lambda: client.write("empty", b"x"), HdfsError, "already exists")
client.write("empty", b"x", overwrite=True, permission=600, replication=1, blocksize=1 << 20)
status = client.status("empty")
equal((status["length"], status["permission"], status["replication"], status["blockSize"]),
      (1, "600", 1, 1 << 20), "attributes of a new file")

# Status and listings.
equal(client.status("nothing", strict=False), None, "status of nothing")
fails(lambda: client.status("nothing"), HdfsError, "does not exist")
fails(lambda: client.list("nothing"), HdfsError, "does not exist")
fails(lambda: client.list("empty"), HdfsError, "is not a directory")
listed = dict(client.list("", status=True))
for name, entry in listed.items():
    alone = client.status(name)
    equal({**entry, "pathSuffix": ""}, alone, f"listed and single status of {name}")
equal(sorted(listed), ["empty", "gen", "lines.txt", "model.bin"], "list")
summary = client.content("")
equal((summary["fileCount"], summary["directoryCount"]), (4, 1), "content summary")
checksum = client.checksum("model.bin")
equal(sorted(checksum), ["algorithm", "bytes", "length"], "keys of a checksum")

# Names and attributes.
client.makedirs("tree/a/b", permission=750)
equal(client.status("tree/a/b")["permission"], "750", "permission of a directory")
client.rename("model.bin", "tree/a/moved")
equal(client.status("model.bin", strict=False), None, "the old name")
client.set_permission("tree/a/moved", 640)
client.set_times("tree/a/moved", modification_time=1_500_000_000_000, access_time=1_500_000_000_001)
status = client.status("tree/a/moved")
equal((status["permission"], status["modificationTime"], status["accessTime"]),
      ("640", 1_500_000_000_000, 1_500_000_000_001), "attributes")
client.set_replication("tree/a/moved", 1)
fails(lambda: client.set_replication("tree", 1), HdfsError)
equal([len(files) for _, _, files in client.walk("tree")], [0, 1, 0], "walk")
fails(lambda: client.delete("tree"), HdfsError, "non empty")
equal(client.delete("tree", recursive=True), True, "delete")
equal(client.delete("tree"), False, "delete of nothing")
equal(client.resolve("x"), f"{ROOT}/hdfscli/x", "resolve")

# Whole trees.
with tempfile.TemporaryDirectory() as local:
    source = os.path.join(local, "source")
    os.makedirs(os.path.join(source, "sub"))
    for name in ("one", "sub/two", "sub/three"):
        with open(os.path.join(source, name), "wb") as file:
            file.write(data(100_000, seed=len(name)))
    client.upload("up", source, n_threads=4)
    client.download("up", os.path.join(local, "back"), n_threads=4)
    for name in ("one", "sub/two", "sub/three"):
        with open(os.path.join(local, "back", name), "rb") as file:
            equal(file.read(), data(100_000, seed=len(name)), f"{name} after a round trip")

# Appending.
client.write("log", b"one,")
client.write("log", b"two", append=True)
with client.read("log") as reader:
    equal(reader.read(), b"one,two", "an appended file")
fails(lambda: client.write("no such log", b"x", append=True), HdfsError, "non-existent file")

# Names of every kind.
client.makedirs("names")
for name in NAMES:
    path = f"{client.root}/names/{name}"
    client.write(path, name.encode())
    with client.read(path) as reader:
        equal(reader.read(), name.encode(), f"content of {name}")
    equal(client.status(path)["length"], len(name.encode()), f"status of {name}")
equal(client.list("names"), sorted(NAMES, key=lambda name: name.encode()), "names in byte order")
client.makedirs("moved")
for name in NAMES:
    client.rename(f"{client.root}/names/{name}", f"{client.root}/moved/{name}")
    equal(client.delete(f"{client.root}/moved/{name}"), True, f"delete of {name}")
client.delete("", recursive=True)
print("HdfsCLI: ok")
