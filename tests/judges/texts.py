"""Examples that read texts and numbers, on the descriptions of Debian's packages."""

import itertools
import math
import re
from collections import Counter, defaultdict

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from rows import at_most, same


def packages(path):
    """Of each package: name, section, description, what it depends on, size. Text is ASCII, in which all agree on what a letter is."""
    found = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for paragraph in file.read().split("\n\n"):
            fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.M))
            if "Package" in fields and "Section" in fields and fields["Package"] not in found:
                text = re.sub(r"[^\x20-\x7e]", " ", fields.get("Description", ""))
                alternatives = re.split(r"[,|]", fields.get("Depends", ""))
                depends = [item.split()[0].split(":")[0] for item in alternatives if item.split()]
                size = int(fields.get("Installed-Size", "0"))
                found[fields["Package"]] = (fields["Section"].split("/")[-1], text, depends, size)
    return found


def words(text):
    """Runs of letters and digits, in lower case."""
    runs = itertools.groupby(text.lower(), str.isalnum)
    return ["".join(run) for is_word, run in runs if is_word]


def descriptions(found, count):
    """Lines `package<TAB>description`, one in so many of all."""
    some = [(name, text) for name, (_, text, _, _) in found.items() if text]
    return some[:: max(1, len(some) // count)][:count]


def text_of(found):
    """One description a line."""
    return "\n".join(text for _, text in descriptions(found, 20000)) + "\n"


def counts_of(lines):
    return {line.rsplit("\t", 1)[0]: int(line.rsplit("\t", 1)[1]) for line in lines}


def wordcount(place, found):
    out, text = place.fresh(), text_of(found)
    place.example("wordcount", place.give(text), out)
    yield same("words", counts_of(place.lines(out)), dict(Counter(text.split())), "Python")


def grep(place, found):
    out, text = place.fresh(), text_of(found)
    place.example("grep", place.give(text), out, "[a-z]+(ing|ed) [a-z]+")
    expected = Counter(match.group(0) for match in re.finditer("[a-z]+(ing|ed) [a-z]+", text))
    lines = [line.split("\t") for line in place.lines(out)]
    yield same("matches", {text: int(count) for count, text in lines}, dict(expected), "Python's re")


def pi(place, _):
    printed = float(place.example("pi", 16, 100000).split()[-1])
    yield at_most("error", abs(printed - math.pi), 1e-4, "Python's math")


def sizes(found):
    return [(section, size) for section, _, _, size in found.values() if size]


def topk(place, found):
    numbers = [size for _, size in sizes(found)]
    source = place.give("".join(f"{number}\n" for number in numbers))
    top, distinct = place.fresh(), place.fresh()
    place.example("topk", "top", 100, source, top)
    place.example("topk", "distinct", source, distinct)
    yield same("largest", [int(line) for line in place.lines(top)], sorted(numbers)[: -101: -1], "Python")
    expected = {str(number): count for number, count in Counter(numbers).items()}
    yield same("distinct", counts_of(place.lines(distinct)), expected, "Python")


def mean_variance(place, found):
    pairs, out = sizes(found), place.fresh()
    # Far from 0, where the formula of the text book has lost all digits.
    place.example("mean_variance", place.give("".join(f"{key}\t{1e9 + size}\n" for key, size in pairs)), out)
    groups = defaultdict(list)
    for key, size in pairs:
        groups[key].append(1e9 + size)
    worst = 0
    lines = [line.split("\t") for line in place.lines(out)]
    for key, count, mean, variance in lines:
        numbers = np.array(groups[key])
        assert int(count) == len(numbers)
        apart = [abs(float(mean) / numbers.mean() - 1), abs(float(variance) - numbers.var()) / max(numbers.var(), 1)]
        worst = max(worst, *apart)
    yield same("sections", {line[0] for line in lines}, set(groups), "numpy")
    yield at_most("relative error", worst, 1e-6, "numpy")


def sessions(place, found):
    visits = [(section, (size * 7919 + len(text) * 31) % 1000003) for section, text, _, size in found.values()]
    source, out = place.give("".join(f"{visitor}\t{time}\t/page\n" for visitor, time in visits)), place.fresh()
    place.example("sessions", "--break", 50, source, out)
    times = defaultdict(list)
    for visitor, time in sorted(visits):
        times[visitor].append(time)
    expected = set()
    for visitor, times_of in times.items():
        begin = 0
        for at in range(1, len(times_of) + 1):
            if at == len(times_of) or times_of[at] - times_of[at - 1] >= 50:
                expected.add(f"{visitor}\t{times_of[begin]}\t{times_of[at - 1] - times_of[begin]}\t{at - begin}")
                begin = at
    yield same("sessions", set(place.lines(out)), expected, "Python")


def inverted_index(place, found):
    out, text = place.fresh(), text_of(found)
    source = place.give(text)
    place.example("inverted_index", source, out)
    places = defaultdict(list)
    for match in re.finditer("[A-Za-z0-9]+", text):
        places[match.group(0).lower()].append(str(match.start()))
    document = source.rsplit("/", 1)[-1]
    expected = {f"{word}\t{document}:{','.join(at)}" for word, at in places.items()}
    yield same("words", set(place.lines(out)), expected, "Python's re")


def cooccurrence(place, found):
    text = "\n".join(text for _, text in descriptions(found, 3000)) + "\n"
    source, window = place.give(text), 3
    pairs = Counter()
    for line in text.split("\n"):
        of_line = line.split()
        for at, word in enumerate(of_line):
            near = of_line[max(0, at - window): at] + of_line[at + 1: at + window + 1]
            pairs.update((word, other) for other in near)
    sums = Counter()
    for (word, _), count in pairs.items():
        sums[word] += count
    for way in ["pairs", "stripes"]:
        out = place.fresh()
        place.example("cooccurrence", way, window, source, out)
        lines = [line.split("\t") for line in place.lines(out)]
        parts = {(word, other): float(part) for word, other, part in lines}
        yield same(way, parts, {(a, b): count / sums[a] for (a, b), count in pairs.items()}, "Python")
    out = place.fresh()
    place.example("cooccurrence", "ngrams", 3, source, out)
    grams = Counter()
    for line in text.split("\n"):
        of_line = line.split()
        grams.update(" ".join(of_line[at: at + 3]) for at in range(len(of_line) - 2))
    yield same("3-grams", counts_of(place.lines(out)), dict(grams), "Python")


def secondary_sort(place, found):
    readings = [(section, f"day{at}", size) for at, (section, size) in enumerate(sizes(found))]
    source, out = place.give("".join("\t".join(map(str, reading)) + "\n" for reading in readings)), place.fresh()
    place.example("secondary_sort", source, out)
    hottest = {}
    for station, _, tenths in readings:
        hottest[station] = max(tenths, hottest.get(station, 0))
    lines = [line.split("\t") for line in place.lines(out)]
    yield same("stations", {station: int(tenths) for station, _, tenths in lines}, hottest, "Python")
    days = set((station, day, str(tenths)) for station, day, tenths in readings)
    yield same("days that have this temperature", sum(tuple(line) in days for line in lines), len(hottest), "Python")


def terasort(place, _):
    made, out, report = place.fresh(), place.fresh(), place.fresh()
    place.example("teragen", 200000, made)
    place.example("terasort", "--reducers", 3, made, out)
    records = place.bytes(made)
    records = sorted(records[at: at + 100] for at in range(0, len(records), 100))
    yield same("bytes", place.bytes(out), b"".join(records), "Python's sort")
    place.example("teravalidate", out, report)
    yield same("records that teravalidate counts", place.lines(report)[-1].split("\t")[-1], "200000", "the number asked for")


def sides(found):
    """Packages of one section with their descriptions, and who depends on what."""
    users = {name: text for name, (section, text, _, _) in found.items() if section == "python"}
    visits = [(needed, name) for name, (_, _, depends, _) in found.items() for needed in depends]
    return users, visits


def joins(place, found):
    yield from joined(place, found, "joins", "reduce")


def bloom_join(place, found):
    yield from joined(place, found, "bloom_join", "--bits", 60000)


def joined(place, found, example, *options):
    users, visits = sides(found)
    left = place.give("".join(f"{name}\t{text}\n" for name, text in users.items()))
    right = place.give("".join(f"{needed}\t{name}\n" for needed, name in visits))
    out = place.fresh()
    place.example(example, *options, left, right, out)
    expected = sorted(f"{users[needed]}\t{name}" for needed, name in visits if needed in users)
    yield same("pairs", sorted(place.lines(out)), expected, "Python")


def tfidf(place, found):
    documents = descriptions(found, 1500)
    out, weights = place.fresh(), place.fresh()
    source = place.give("".join(f"{name}\t{text}\n" for name, text in documents))
    options = ["--neighbours", 5, "--documents-max", 1500, "--vectors", weights]
    place.example("tfidf", *options, source, out)
    judge = TfidfVectorizer(tokenizer=words, token_pattern=None)
    matrix = judge.fit_transform(text for _, text in documents)
    rows = {name: at for at, (name, _) in enumerate(documents)}
    worst, count = 0, 0
    for line in place.lines(weights):
        name, term, weight = line.split("\t")
        worst = max(worst, abs(matrix[rows[name], judge.vocabulary_[term]] - float(weight)))
        count += 1
    yield same("weights", count, matrix.nnz, "TfidfVectorizer")
    yield at_most("error of weights", worst, 1e-12, "TfidfVectorizer")
    cosines = (matrix @ matrix.T).toarray()
    np.fill_diagonal(cosines, 0)
    worst, found_of = 0, defaultdict(list)
    for line in place.lines(out):
        name, other, cosine = line.split("\t")
        worst = max(worst, abs(cosines[rows[name], rows[other]] - float(cosine)))
        found_of[name].append(float(cosine))
    for name, at in rows.items():
        best = np.sort(cosines[at])[: -6: -1]
        for own, expected in itertools.zip_longest(found_of[name], best[best > 0], fillvalue=9):
            worst = max(worst, abs(own - expected))
    yield at_most("error of the five largest cosines", worst, 1e-9, "TfidfVectorizer")


JUDGES = {
    judge.__name__: judge
    for judge in [wordcount, grep, pi, topk, mean_variance, sessions, inverted_index, cooccurrence, secondary_sort,
                  terasort, joins, bloom_join, tfidf]
}
