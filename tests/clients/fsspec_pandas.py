"""fsspec's `webhdfs` and what stands on it: pandas with CSV and Parquet, shuffled epochs over many files."""

import random

import fsspec
import pandas

from common import FSSPEC, HOST, NAMES, PORT, USER, data, equal, fails, fresh

options = FSSPEC
proof = {name: value for name, value in options.items() if name not in ("host", "port")}
fs = fsspec.filesystem("webhdfs", **options)
base = fresh(fs, "fsspec")
url = f"webhdfs://{HOST}:{PORT}{base}"

# Files.
content = data(9_000_000)
fs.pipe_file(f"{base}/a", content)
equal(fs.cat_file(f"{base}/a"), content, "cat")
equal(fs.cat_file(f"{base}/a", start=100, end=200), content[100:200], "a range")
equal(fs.info(f"{base}/a")["size"], len(content), "size")
equal(fs.info(f"{base}/a")["type"], "file", "type")
with fs.open(f"{base}/a", "rb", block_size=100_000) as file:
    for offset in (5_000_000, 0, 8_999_990, 12_345):
        file.seek(offset)
        equal(file.read(10), content[offset:offset + 10], f"10 bytes at {offset}")
with fs.open(f"{base}/b", "wb", block_size=1 << 20) as file:
    for start in range(0, len(content), 700_000):
        file.write(content[start:start + 700_000])
equal(fs.cat_file(f"{base}/b"), content, "a file written in several requests")
equal(fs.ukey(f"{base}/a")["length"], 28, "checksum")
equal(sorted(name.rsplit("/", 1)[1] for name in fs.ls(base, detail=False)), ["a", "b"], "ls")
fs.mv(f"{base}/b", f"{base}/c")
equal((fs.exists(f"{base}/b"), fs.exists(f"{base}/c")), (False, True), "mv")
fails(lambda: fs.info(f"{base}/nothing"), FileNotFoundError)
fails(lambda: fs.rm(base), RuntimeError, "non empty")
equal(fs.content_summary(base)["fileCount"], 2, "content summary")
equal(fs.home_directory(), f"/user/{USER}", "home")
fs.chmod(f"{base}/a", "600")
equal(fs.info(f"{base}/a")["permission"], "600", "chmod")

# Names.
fs.makedirs(f"{base}/names")
for name in NAMES:
    fs.pipe_file(f"{base}/names/{name}", name.encode())
    equal(fs.cat_file(f"{base}/names/{name}"), name.encode(), f"content of {name}")
equal(len(fs.ls(f"{base}/names")), len(NAMES), "names")

# pandas.
frame = pandas.DataFrame({"number": range(20_000), "word": [f"w{n % 97} ü" for n in range(20_000)]})
frame.to_csv(f"{url}/frame.csv", index=False, storage_options=options)
back = pandas.read_csv(f"{url}/frame.csv", storage_options=options)
pandas.testing.assert_frame_equal(back, frame)
frame.to_parquet(f"{url}/frame.parquet", storage_options=options)
back = pandas.read_parquet(f"{url}/frame.parquet", storage_options=options)
pandas.testing.assert_frame_equal(back, frame)
back = pandas.read_parquet(f"{url}/frame.parquet", columns=["number"], storage_options=options)
equal(int(back["number"].sum()), 20_000 * 19_999 // 2, "one column of a Parquet file")

# A shuffled epoch over many files, as a trainer reads samples.
fs.makedirs(f"{base}/samples")
for number in range(50):
    fs.pipe_file(f"{base}/samples/{number:03}", data(10_000, seed=number))
order = list(range(50))
random.Random(7).shuffle(order)
for number, opened in zip(order, fsspec.open_files([f"{url}/samples/{n:03}" for n in order], "rb", **proof)):
    with opened as file:
        equal(file.read(), data(10_000, seed=number), f"sample {number}")

fs.rm(base, recursive=True)
equal(fs.exists(base), False, "rm -r")
print("fsspec, pandas: ok")
