#!/usr/bin/env python3
"""spark_learning.py kmeans|logistic FILE: Spark's side of bench/learning.sh.

Reads the lines of bench/points.py into a cached DataFrame, which counts as the first pass, and then lets Spark's own library do 1 and 11 iterations.
Prints seconds: to read, and for each iteration after the first.
"""
import sys
import time

from pyspark.ml.classification import LogisticRegression
from pyspark.ml.clustering import KMeans
from pyspark.ml.functions import array_to_vector
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, slice, split

ITERATIONS = 10

kind, path = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
numbers = split(col("value"), " ").cast("array<double>")
lines = spark.read.text(path)
if kind == "kmeans":
    rows = lines.select(array_to_vector(numbers).alias("features"))
    learner = lambda n: KMeans(k=25, maxIter=n, tol=0.0, seed=1, initMode="random")
else:
    rows = lines.select(numbers.alias("all")).select(
        col("all")[0].alias("label"), array_to_vector(slice(col("all"), 2, 100)).alias("features")
    )
    learner = lambda n: LogisticRegression(maxIter=n, tol=0.0, regParam=0.0)
begin = time.monotonic()
count = rows.cache().count()
print(f"{kind}: {count} rows read in {time.monotonic() - begin:.2f} s", flush=True)
times = []
for iterations in (1, 1, 1 + ITERATIONS):
    begin = time.monotonic()
    model = learner(iterations).fit(rows)
    times.append(time.monotonic() - begin)
    done = model.summary.numIter if kind == "kmeans" else model.summary.totalIterations
    print(f"{kind}: {done} iterations in {times[-1]:.2f} s", flush=True)
print(f"{kind}: {(times[2] - times[1]) / ITERATIONS:.3f} s for an iteration after the first")
