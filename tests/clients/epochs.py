"""A training set as trainers read it: shards of records over fsspec, in another order each epoch, by several readers at once.

The reader is what a `torch.utils.data.IterableDataset` over fsspec does: each worker takes its share of the shuffled shards, streams
them in blocks and mixes records in a buffer."""

import random
import struct
from concurrent.futures import ThreadPoolExecutor

import fsspec

from common import FSSPEC, HOST, PORT, data, equal, fresh, without_globs

SHARDS, RECORDS, RECORD_BYTES, READERS, BUFFER = 40, 250, 400, 4, 64
options = FSSPEC
proof = {name: value for name, value in options.items() if name not in ("host", "port")}
fs = fsspec.filesystem("webhdfs", **options)
base = fresh(fs, "epochs")


def record(number):
    return struct.pack(">I", number) + data(RECORD_BYTES, seed=number)


def records(path):
    """The records of a shard, streamed."""
    size = 4 + RECORD_BYTES
    with fsspec.open(f"webhdfs://{HOST}:{PORT}{path}", "rb", **proof, block_size=16 << 10) as file:
        while piece := file.read(size):
            yield piece


def epoch(shards, seed, reader):
    """What one of the readers yields in the epoch of this seed."""
    order = random.Random(seed).sample(shards, len(shards))[reader::READERS]
    shuffle, buffer = random.Random((seed << 8) + reader), []
    for shard in order:
        for piece in records(shard):
            buffer.append(piece)
            if len(buffer) > BUFFER:
                yield buffer.pop(shuffle.randrange(len(buffer)))
    shuffle.shuffle(buffer)
    yield from buffer


for shard in range(SHARDS):
    begin = shard * RECORDS
    fs.pipe_file(f"{base}/shard-{shard:05}", b"".join(record(begin + number) for number in range(RECORDS)))
for number, name in enumerate(without_globs()):
    fs.pipe_file(f"{base}/{name}", record(SHARDS * RECORDS + number))
total = SHARDS * RECORDS + len(without_globs())
shards = fs.ls(base, detail=False)

orders = []
for seed in (1, 2):
    with ThreadPoolExecutor(READERS) as pool:
        shares = list(pool.map(lambda reader: list(epoch(shards, seed, reader)), range(READERS)))
    seen = [piece for share in shares for piece in share]
    numbers = [struct.unpack(">I", piece[:4])[0] for piece in seen]
    equal(sorted(numbers), list(range(total)), f"records of epoch {seed}")
    for number, piece in zip(numbers, seen):
        if piece != record(number):
            raise SystemExit(f"record {number} of epoch {seed} is damaged")
    orders.append(numbers)
if orders[0] == orders[1] or orders[0] == sorted(orders[0]):
    raise SystemExit("epochs are not shuffled")
fs.rm(base, recursive=True)
print("shuffled epochs over fsspec: ok")
