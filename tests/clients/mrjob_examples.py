"""mrjob's own example jobs, unchanged, through `hadoop jar`: the same output as where mrjob runs them itself."""

import os
import pathlib
import subprocess
import sys
import tempfile

import mrjob

from common import equal

EXAMPLES = pathlib.Path(mrjob.__file__).parent / "examples"
TEXTS = sorted(str(path) for path in (EXAMPLES / "docs-to-classify").iterdir())
# Name and arguments. Not here: those that need Java (`nick_nack`, `jar_step`), Spark, a crawl (`phone_to_url`), that draw lots (`log_sampler`), or whose tasks call
# `hadoop fs` (`mr_text_classifier`): a task has no address of the file system.
JOBS = [
    ("mr_word_freq_count", []),
    ("mr_wc", []),
    ("mr_most_used_word", []),
    ("mr_next_word_stats", []),
    ("mr_count_lines_right", []),
    ("mr_count_lines_wrong", []),
    ("mr_words_containing_u_freq_count", []),
    ("mr_grep", ["-e", "America"]),
]

links = tempfile.mkdtemp(prefix="mrjob-", dir=os.environ["HANNO_DATA"])
subprocess.run([os.environ["HANNO"], "install-links", links], check=True, stdout=subprocess.DEVNULL)
environment = dict(os.environ, PATH=f"{links}:{os.environ['PATH']}", HANNO_CONFIG=f"{os.environ['HANNO_DATA']}/hanno.toml")
environment.pop("HANNO_NAMENODE", None)


def run(name, arguments, runner):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "-r", runner, *arguments, *TEXTS]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def lines(name, arguments, runner):
    ended = run(name, arguments, runner)
    if ended.returncode != 0:
        sys.exit(f"{name} -r {runner}: {ended.stderr}")
    # Hadoop's output has the tab behind a key that has no value, too.
    return sorted(line.rstrip("\t") for line in ended.stdout.splitlines()), ended.stderr


for name, arguments in JOBS:
    found, log = lines(name, arguments, "hadoop")
    expected, _ = lines(name, arguments, "local")
    if name == "mr_count_lines_wrong":  # one line for each map, so their sum alone is the same
        found, expected = ([sum(int(line.split("\t")[1]) for line in each)] for each in (found, expected))
    equal(found, expected, name)
    # mrjob reads them from the lines of `hadoop jar`.
    for wanted in ("Running job: job_", "Map input records="):
        if wanted not in log:
            sys.exit(f"{name}: mrjob did not find `{wanted}`: {log}")

failed = run("mr_boom", [], "hadoop")
for wanted in ("Probable cause of failure", "Exception: BOOM"):
    if failed.returncode == 0 or wanted not in failed.stderr:
        sys.exit(f"mr_boom: mrjob did not find `{wanted}`: {failed.stderr}")
print(f"mrjob: ok, {len(JOBS)} jobs and one that fails")
