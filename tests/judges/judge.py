"""Compares what examples find with what independent programs find, and prints a table. Run by run.sh."""

import argparse
import os
import random
import sys
import traceback

import graphs
import learners
import texts
from places import Cluster, Local

JUDGES = {**texts.JUDGES, **graphs.JUDGES, **learners.JUDGES}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", required=True)
    parser.add_argument("--scratch", required=True)
    parser.add_argument("judges", nargs="*", default=[])
    arguments = parser.parse_args()
    unknown = set(arguments.judges) - set(JUDGES)
    if unknown:
        sys.exit(f"no judge has the name {', '.join(sorted(unknown))}; there are {', '.join(JUDGES)}")
    os.makedirs(arguments.scratch, exist_ok=True)
    places = [Local(arguments.scratch), Cluster(arguments.scratch)]
    packages = texts.packages(arguments.packages)
    failed = []
    print("example | place | figure | judge | tolerance | ok", flush=True)
    for name in arguments.judges or JUDGES:
        for place in places:
            random.seed(7)
            try:
                rows = list(JUDGES[name](place, packages))
            except Exception as error:
                failed.append(f"{name} ({place.name}): {error}")
                traceback.print_exc()
                continue
            for figure, value, judge, tolerance, ok in rows:
                verdict = "yes" if ok else "NO"
                print(f"{name} | {place.name} | {figure} {value} | {judge} | {tolerance} | {verdict}", flush=True)
                if not ok:
                    failed.append(f"{name} ({place.name}): {figure} {value}, {judge} wants {tolerance}")
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
