"""Dask over fsspec's `webhdfs`: frames of many CSV files, Parquet, bags of lines."""

import dask
import dask.bag
import dask.dataframe
import fsspec
import pandas

from common import FSSPEC, HOST, PORT, equal, fresh, without_globs

dask.config.set(scheduler="threads", num_workers=2)
options = FSSPEC
fs = fsspec.filesystem("webhdfs", **options)
base = fresh(fs, "dask")
url = f"webhdfs://{HOST}:{PORT}{base}"
fs.makedirs(f"{base}/csv")

# Several files, read as one frame, in blocks smaller than a file.
count = 20
for number in range(count):
    rows = range(number * 1000, number * 1000 + 1000)
    part = pandas.DataFrame({"id": rows, "day": [row % 7 for row in rows], "word": [f"w{row % 97} ü" for row in rows]})
    part.to_csv(f"{url}/csv/part-{number:03}.csv", index=False, storage_options=options)
frame = dask.dataframe.read_csv(f"{url}/csv/part-*.csv", storage_options=options, blocksize=4096)
if frame.npartitions <= count:
    raise SystemExit(f"{frame.npartitions} blocks of {count} files")
equal(int(frame["id"].sum().compute()), sum(range(count * 1000)), "sum over CSV files")
by_day = frame.groupby("day")["id"].count().compute().sort_index()
equal(by_day.tolist(), [len(range(day, count * 1000, 7)) for day in range(7)], "groups")

# Parquet, plain and partitioned, overwritten, with a filter.
frame.to_parquet(f"{url}/parquet", storage_options=options)
back = dask.dataframe.read_parquet(f"{url}/parquet", storage_options=options)
equal((len(back), int(back["id"].sum().compute())), (count * 1000, sum(range(count * 1000))), "Parquet")
frame.repartition(npartitions=3).to_parquet(f"{url}/parquet", storage_options=options, overwrite=True)
back = dask.dataframe.read_parquet(f"{url}/parquet", storage_options=options, columns=["word"])
equal((back.npartitions, back["word"].nunique().compute()), (3, 97), "Parquet, overwritten")
frame.to_parquet(f"{url}/days", storage_options=options, partition_on=["day"])
one = dask.dataframe.read_parquet(f"{url}/days", storage_options=options, filters=[("day", "==", 3)])
equal(len(one), len(range(3, count * 1000, 7)), "one partition")

# CSV files by the dozen, and lines.
frame.repartition(npartitions=5).to_csv(f"{url}/out/part-*.csv", index=False, storage_options=options)
equal(len(dask.dataframe.read_csv(f"{url}/out/part-*.csv", storage_options=options)), count * 1000, "written CSV")
lines = dask.bag.read_text(f"{url}/csv/part-00*.csv", storage_options=options)
equal(lines.count().compute(), 10 * 1001, "lines")

# Names. Dask takes patterns: what is one cannot be named.
names = without_globs()
for name in names:
    fs.pipe_file(f"{base}/names/{name}", b"number\n1\n2\n")
paths = [f"webhdfs://{HOST}:{PORT}{base}/names/{name}" for name in names]
equal(len(dask.dataframe.read_csv(paths, storage_options=options)), 2 * len(names), "files of every name")
fs.rm(base, recursive=True)
print("Dask: ok")
