#!/usr/bin/env python3
"""points.py groups|kinds BYTES: points for bench/learning.sh, on standard output.

`groups`: lines of ten numbers around ten corners, for k-means. `kinds`: the same behind a kind, 0 or 1, that depends on them, for logistic regression.
A tenth of the bytes is drawn, and written ten times.
"""
import math
import random
import sys

NUMBERS, GROUPS, TIMES = 10, 10, 10

kind, limit = sys.argv[1], int(sys.argv[2])
drawn = random.Random(1)
corners = [[100 * drawn.random() for _ in range(NUMBERS)] for _ in range(GROUPS)]
slopes = [(drawn.random() - 0.5) / 20 for _ in range(NUMBERS)]
lines, size = [], 0
while size < limit // TIMES:
    point = [corner + 12 * (drawn.random() + drawn.random() - 1) for corner in corners[drawn.randrange(GROUPS)]]
    line = " ".join(f"{number:.6f}" for number in point)
    if kind == "kinds":
        score = sum(slope * (number - 50) for slope, number in zip(slopes, point)) - 1
        line = f"{int(drawn.random() < 1 / (1 + math.exp(-score)))} {line}"
    lines.append(line)
    size += len(line) + 1
text = "\n".join(lines) + "\n"
for _ in range(TIMES):
    sys.stdout.write(text)
