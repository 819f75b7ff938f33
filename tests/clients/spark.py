"""Spark (local mode) over `webhdfs://`: Parquet written, partitioned, overwritten and read back; text files; many tasks at once."""

import os
import sys

from pyspark.sql import SparkSession, functions as F

from common import NAMENODE, NAMES, ROOT, USER, equal, escaped

os.environ["HADOOP_USER_NAME"] = USER
base = NAMENODE.replace("http://", "webhdfs://") + f"{ROOT}/spark"


def session(slots):
    spark = (
        SparkSession.builder.master(f"local[{slots}]")
        .appName("clients")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


spark = session(2)

frame = spark.range(0, 200_000, numPartitions=4).select(
    "id", (F.col("id") % 7).alias("day"), F.sha1(F.col("id").cast("string")).alias("text")
)
expected = frame.agg(F.count("*"), F.sum("id"), F.sum(F.crc32("text"))).first()


def summed(read):
    return read.agg(F.count("*"), F.sum("id"), F.sum(F.crc32("text"))).first()


frame.write.parquet(f"{base}/plain")
equal(summed(spark.read.parquet(f"{base}/plain")), expected, "Parquet")
frame.write.mode("overwrite").parquet(f"{base}/plain")
equal(summed(spark.read.parquet(f"{base}/plain")), expected, "Parquet, overwritten")
frame.write.partitionBy("day").parquet(f"{base}/days")
equal(summed(spark.read.parquet(f"{base}/days")), expected, "Parquet, partitioned")
equal(spark.read.parquet(f"{base}/days").where("day = 3").count(), frame.where("day = 3").count(), "one partition")
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
frame.where("day = 3").write.mode("overwrite").partitionBy("day").parquet(f"{base}/days")
equal(summed(spark.read.parquet(f"{base}/days")), expected, "one partition overwritten")
try:
    frame.write.parquet(f"{base}/plain")
    sys.exit("writing where something is should fail")
except Exception as error:
    if "PATH_ALREADY_EXISTS" not in str(error):
        raise

# Both versions of the file output committer, a hundred tasks.
for version in ("1", "2"):
    spark.conf.set("mapreduce.fileoutputcommitter.algorithm.version", version)
    lines = spark.sparkContext.parallelize(range(10_000), 100).map(lambda n: f"line {n}")
    lines.saveAsTextFile(f"{base}/text{version}")
    back = spark.sparkContext.textFile(f"{base}/text{version}")
    equal((back.count(), len(set(back.collect()))), (10_000, 10_000), "text files")

# Names: of directories that are written and read, and of partitions, whose values Spark encodes itself.
for name in NAMES:
    spark.createDataFrame([(name,)], "value string").coalesce(1).write.text(f"{base}/names/{name}")
    equal(spark.read.text(f"{base}/names/{escaped(name)}").first().value, name, f"text below {name}")
short = [name for name in NAMES if len(name) < 50]
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
named = spark.createDataFrame([(name, len(name)) for name in short], "name string, length int")
named.write.partitionBy("name").parquet(f"{base}/named")
back = spark.read.parquet(f"{base}/named").collect()
equal(sorted((row.name, row.length) for row in back), sorted((name, len(name)) for name in short), "partitions")

frame.write.option("header", True).csv(f"{base}/csv")
equal(spark.read.option("header", True).csv(f"{base}/csv").count(), 200_000, "CSV")
spark.stop()

# A hundred tasks at once: each has a slot, and writes a file of its own.
spark = session(100)
wide = spark.range(0, 1_000_000, numPartitions=100).select("id", F.sha1(F.col("id").cast("string")).alias("text"))
expected = wide.agg(F.count("*"), F.sum("id"), F.sum(F.crc32("text"))).first()
wide.write.parquet(f"{base}/hundred")
equal(summed(spark.read.parquet(f"{base}/hundred")), expected, "Parquet of a hundred tasks at once")
wide.select("text").write.mode("overwrite").text(f"{base}/hundred")
equal(spark.read.text(f"{base}/hundred").distinct().count(), 1_000_000, "text of a hundred tasks at once")
spark.stop()
print("Spark: ok")
