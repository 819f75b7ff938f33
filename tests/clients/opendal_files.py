"""OpenDAL's `webhdfs` service (the Rust core, through its Python package): what it says that it can, and names of every kind."""

import opendal
from opendal.exceptions import IsADirectory, NotFound

from common import NAMES, OPENDAL, ROOT, data, equal, fails

base = f"{ROOT}/opendal"


def operator(**more):
    return opendal.Operator("webhdfs", root=base, **OPENDAL, **more)


op = operator()
# Files of many pieces: each is a file of its own, then they are joined and renamed into place.
parts = operator(atomic_write_dir=".parts/")
op.remove_all("/")
op.check()

# Writing and reading, whole and in ranges.
content = data(5_000_000)
op.write("file", content)
equal(op.read("file"), content, "read")
equal(op.read("file", offset=1000, size=5000), content[1000:6000], "a range")
equal(op.read("file", offset=4_999_990), content[4_999_990:], "from an offset to the end")
op.write("empty", b"")
equal(op.read("empty"), b"", "an empty file")
op.write("file", content[:1000])
equal(op.read("file"), content[:1000], "an overwritten file")
op.write("deep/er/file", b"parents are made")
equal(op.read("deep/er/file"), b"parents are made", "a file below new directories")
with parts.open("stream", "wb") as file:
    for start in range(0, len(content), 700_000):
        file.write(content[start:start + 700_000])
with op.open("stream", "rb") as file:
    equal(file.read(100), content[:100], "the first bytes")
    file.seek(4_000_000)
    equal(file.read(10), content[4_000_000:4_000_010], "bytes after a seek")
    file.seek(-5, 2)
    equal(file.read(), content[-5:], "the last bytes")
if op.capability().write_can_append:
    op.write("log", b"one,", append=True)
    op.write("log", b"two", append=True)
    equal(op.read("log"), b"one,two", "an appended file")

# Looking.
status = op.stat("stream")
equal((status.content_length, status.mode.is_file()), (len(content), True), "stat of a file")
equal(op.stat("deep/").mode.is_dir(), True, "stat of a directory")
fails(lambda: op.stat("nothing"), NotFound)
fails(lambda: op.read("nothing"), NotFound)
fails(lambda: op.read("deep/"), IsADirectory)
equal((op.exists("file"), op.exists("nothing")), (True, False), "exists")
listed = sorted(entry.path for entry in op.list("/") if entry.path != "/")
equal([name for name in listed if name not in ("log", ".parts/")], ["deep/", "empty", "file", "stream"], "list")
whole = sorted(entry.path for entry in op.list("deep/", recursive=True) if not entry.path.endswith("/"))
equal(whole, ["deep/er/file"], "list of a tree")
op.create_dir("many/")
for number in range(1100):
    op.create_dir(f"many/{number:04}/")
pages = [entry.path for entry in op.list("many/") if entry.path != "many/"]
equal(pages, [f"many/{number:04}/" for number in range(1100)], "a directory of more than a page")
single = operator(disable_list_batch="true")
equal(len([entry for entry in single.list("many/") if entry.path != "many/"]), 1100, "a listing in one answer")

# Changing. The service itself has no rename so far, but for the one that ends a file of many pieces.
if op.capability().rename:
    op.rename("stream", "deep/moved")
    equal((op.exists("stream"), op.read("deep/moved") == content), (False, True), "rename")
op.delete("stream")
op.delete("stream")
equal(op.exists("stream"), False, "delete, twice")

# Names.
for name in NAMES:
    op.write(f"names/{name}", name.encode())
    equal(op.read(f"names/{name}"), name.encode(), f"content of {name}")
    equal(op.stat(f"names/{name}").content_length, len(name.encode()), f"stat of {name}")
found = [entry.path.removeprefix("names/") for entry in op.list("names/") if entry.path != "names/"]
equal(sorted(found), sorted(NAMES), "names")
for name in NAMES:
    with parts.open(f"names/{name}", "wb") as file:
        for start in range(0, 900_000, 300_000):
            file.write(content[start:start + 300_000])
    equal(op.read(f"names/{name}"), content[:900_000], f"{name} after parts were renamed to it")
    op.delete(f"names/{name}")
    equal(op.exists(f"names/{name}"), False, f"delete of {name}")
op.remove_all("/")
print("OpenDAL: ok")
