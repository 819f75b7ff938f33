"""Ray Data over fsspec's `webhdfs`: CSV in, Parquet out and in, binary files, a shuffle."""

import os

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
import fsspec
import ray

from common import FSSPEC, NAMES, equal, fresh

fs = fsspec.filesystem("webhdfs", **FSSPEC)
base = fresh(fs, "ray")
fs.makedirs(f"{base}/csv")
count = 8
for number in range(count):
    rows = "".join(f"{row},w{row % 97}\n" for row in range(number * 500, number * 500 + 500))
    fs.pipe_file(f"{base}/csv/{number}.csv", ("id,word\n" + rows).encode())
fs.makedirs(f"{base}/names")
for name in NAMES:
    fs.pipe_file(f"{base}/names/{name}", name.encode())

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="warning", object_store_memory=128 << 20)
ray.data.DataContext.get_current().enable_progress_bars = False
try:
    frame = ray.data.read_csv(f"{base}/csv", filesystem=fs, override_num_blocks=2)
    frame.random_shuffle(seed=7).write_parquet(f"{base}/parquet", filesystem=fs)
    back = ray.data.read_parquet(f"{base}/parquet", filesystem=fs, override_num_blocks=2)
    equal(sorted(row["id"] for row in back.take_all()), list(range(count * 500)), "CSV to Parquet, shuffled")
    binary = ray.data.read_binary_files(f"{base}/names", filesystem=fs, override_num_blocks=2)
    equal(sorted(row["bytes"].decode() for row in binary.take_all()), sorted(NAMES), "files of every name")
finally:
    ray.shutdown()
fs.rm(base, recursive=True)
print("Ray Data: ok")
