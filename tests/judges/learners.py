"""Examples that learn, on the data sets that scikit-learn brings, on descriptions of Debian's packages, and on data with a known answer."""

import math
from collections import Counter

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import eigsh
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import MultinomialNB

from rows import at_most, same
from texts import descriptions, words


def data(name):
    found = getattr(datasets, f"load_{name}")()
    return found.data.astype(float), found.target


def lines(*columns):
    """Rows of numbers as text, exactly."""
    return "".join(" ".join(repr(float(x)) for x in row) + "\n" for row in np.column_stack(columns))


def numbers(line):
    """The last field."""
    return [float(word) for word in line.split("\t")[-1].split()]


def kmeans(place, _):
    for name, k in [("iris", 3), ("wine", 3), ("digits", 10), ("breast_cancer", 5)]:
        points, _ = data(name)
        out = place.fresh()
        printed = place.example("kmeans", "--k", k, "--rounds", 300, place.give(lines(points)), out)
        centres = np.array([numbers(line) for line in printed.splitlines()])
        squares = ((points[:, None, :] - centres[None]) ** 2).sum(axis=2).min(axis=1)
        best = KMeans(k, n_init=10, random_state=1).fit(points).inertia_
        yield at_most(f"inertia of {name} by the best of ten", squares.sum() / best, 1.05, "KMeans")
        written = sum(((np.array(numbers(line)) - centres[int(line.split("\t")[0])]) ** 2).sum() for line in place.lines(out))
        yield at_most(f"error of the groups of {name}", abs(written / squares.sum() - 1), 1e-9, "numpy")


def weights(printed):
    found = np.array([numbers(line)[0] for line in printed.splitlines()])
    return found[0], found[1:]


def logistic_regression(place, _):
    sets = {"iris": (50, 150, slice(None)), "breast_cancer": (0, 569, slice(0, 4)), "wine": (59, 178, slice(0, 3))}
    for name, (begin, end, columns) in sets.items():
        points, target = data(name)
        points, kinds = points[begin:end, columns], (target[begin:end] == target[end - 1]).astype(float)
        printed = place.example("logistic_regression", "--rounds", 4000, "--accuracy", 1e-6, place.give(lines(kinds, points)))
        constant, slopes = weights(printed)
        loss = log_loss(kinds, 1 / (1 + np.exp(-(constant + points @ slopes))))
        scaled = (points - points.mean(axis=0)) / points.std(axis=0)
        judge = LogisticRegression(C=np.inf, tol=1e-12, max_iter=100000).fit(scaled, kinds)
        best = log_loss(kinds, judge.predict_proba(scaled)[:, 1])
        yield at_most(f"loss of {name} above the least", max(0.0, loss - best), 1e-3, "LogisticRegression")


def linear_regression(place, _):
    for name, ways in [("diabetes", ["--exact", "--descent"]), ("breast_cancer", ["--exact"]), ("iris", ["--descent"])]:
        points, target = data(name)
        target = target.astype(float)
        source = place.give(lines(target, points))
        judge = LinearRegression().fit(points, target)
        for way in ways:
            printed = place.example("linear_regression", way, "--rounds", 4000, "--accuracy", 1e-5, source)
            constant, slopes = weights(printed)
            apart = np.abs(constant + points @ slopes - judge.predict(points)).max() / target.std()
            yield at_most(f"error of {name}, {way}", apart, 1e-8 if way == "--exact" else 1e-3, "LinearRegression")


def pca(place, _):
    for name in ["iris", "wine", "digits", "breast_cancer"]:
        points, _ = data(name)
        out = place.fresh()
        printed = place.example("pca", "--components", 4, "--projections", out, place.give(lines(points)))
        judge = PCA(4, svd_solver="full").fit(points)
        fields = [line.split("\t") for line in printed.splitlines()]
        variances = np.array([float(field[1]) for field in fields])
        yield at_most(f"relative error of the variances of {name}", np.abs(variances / judge.explained_variance_ - 1).max(), 1e-8, "PCA")
        directions = np.array([numbers(field[2]) for field in fields])
        turned = 1 - np.abs((directions * judge.components_).sum(axis=1)).min()
        yield at_most(f"error of the directions of {name}", turned, 1e-8, "PCA")
        projected = np.array([numbers(line) for line in place.lines(out)])
        expected = (points - points.mean(axis=0)) @ directions.T
        order = lambda rows: rows[np.lexsort(np.round(rows, 6).T)]
        apart = np.abs(order(projected) - order(expected)).max() / np.abs(expected).max()
        yield at_most(f"error of the projections of {name}", apart, 1e-9, "numpy")


def naive_bayes(place, found):
    points, target = data("digits")
    text = lambda row: " ".join(f"p{at} " * int(count) for at, count in enumerate(row)).strip()
    digits = [(f"d{label}", text(row)) for row, label in zip(points, target)]
    sections = Counter(section for section, text, _, _ in found.values() if text).most_common(8)
    sections = {section for section, _ in sections}
    described = [(section, text) for section, text, _, _ in found.values() if section in sections and text]
    for name, rows in [("digits as words", digits), ("sections of packages", described[::3])]:
        training, test = rows[::2], rows[1::2]
        model, out = place.fresh(), place.fresh()
        give = lambda rows: place.give("".join(f"{label}\t{text}\n" for label, text in rows))
        place.example("naive_bayes", "train", give(training), model)
        side = place.side_file(f"{model}/part-r-00000") + "#model"
        place.example("naive_bayes", "--files", side, "classify", give([(at, text) for at, (_, text) in enumerate(test)]), out)
        count = CountVectorizer(tokenizer=words, token_pattern=None)
        judge = MultinomialNB(alpha=1).fit(count.fit_transform(text for _, text in training), [label for label, _ in training])
        expected = judge.predict(count.transform(text for _, text in test))
        labels = dict(line.split("\t") for line in place.lines(out))
        yield same(f"texts of {name}", len(labels), len(test), "MultinomialNB")
        others = sum(labels[str(at)] != label for at, label in enumerate(expected)) / len(test)
        yield at_most(f"labels of {name} that differ, of all", others, 1e-3, "MultinomialNB")
        wrong = [np.mean([label != own for label, (own, _) in zip(of, test)]) for of in [[labels[str(at)] for at in range(len(test))], expected]]
        yield at_most(f"wrong labels of {name} beyond the judge's, of all", wrong[0] - wrong[1], 1e-3, "MultinomialNB")


def als(place, _):
    for rank, users, items, rounds in [(5, 300, 200, 30), (50, 500, 400, 30)]:
        generator = np.random.default_rng(rank)
        left, right = generator.normal(size=(users, rank)), generator.normal(size=(items, rank))
        ratings = left @ right.T / math.sqrt(rank)
        kept = generator.random((users, items)) < 0.6
        source = "".join(f"{u} {i} {float(ratings[u, i])!r}\n" for u, i in zip(*np.nonzero(kept)))
        out = place.fresh()
        printed = place.example("als", "--rank", rank, "--regularisation", 1e-9, "--rounds", rounds, place.give(source), out)
        vectors = {"user": np.zeros((users, rank)), "item": np.zeros((items, rank))}
        for line in place.lines(out):
            kind, number, _ = line.split("\t")
            vectors[kind][int(number)] = numbers(line)
        wrong = vectors["user"] @ vectors["item"].T - ratings
        rmse = math.sqrt((wrong[kept] ** 2).mean())
        last = numbers(printed.splitlines()[-1])[0]
        yield same(f"rounds of rank {rank}", len(printed.splitlines()), 2 * rounds, "the number asked for")
        yield at_most(f"error of what is printed, rank {rank}", abs(last - rmse), 1e-6, "numpy")
        yield at_most(f"RMSE of rank {rank}", rmse, 1e-2, "the factors that made the ratings")
        yield at_most(f"RMSE of ratings left out, rank {rank}", math.sqrt((wrong[~kept] ** 2).mean()), 5e-2, "the factors that made the ratings")


PLANTED = {"planteduncle": "he home", "plantedaunt": "she home", "plantedduke": "he court", "plantedduchess": "she court"}


def planted(lines):
    """Lines about four people, each in the company of the words of two of four subjects: 150 words of the text for each subject."""
    frequent = Counter(word for line in lines for word in words(line)).most_common(900)[300:]
    subjects = {name: [word for word, _ in frequent[at::4]] for at, name in enumerate(["he", "she", "home", "court"])}
    for person, of_person in PLANTED.items():
        for subject in of_person.split():
            for word in subjects[subject]:
                yield from [f"{person} {word}"] * 4


def word_vectors(place, found):
    text = [text for _, text in descriptions(found, 20000)]
    text += planted(text)
    out, window, count, dimensions = place.fresh(), 4, 3000, 40
    options = ["--vocabulary", count, "--window", window, "--dimensions", dimensions, "--rounds", 30]
    place.example("word_vectors", *options, place.give("\n".join(text) + "\n"), out)
    vectors = {line.split("\t")[0]: np.array(numbers(line)) for line in place.lines(out)}
    frequent = Counter(word for line in text for word in words(line))
    ranked = sorted(frequent.items(), key=lambda item: (-item[1], item[0]))[:count]
    ranks = {word: rank for rank, (word, _) in enumerate(ranked)}
    pairs = Counter()
    for line in text:
        of_line = [ranks[word] for word in words(line) if word in ranks]
        for at, a in enumerate(of_line):
            for b in of_line[at + 1: at + window + 1]:
                pairs[a, b] += 1
                pairs[b, a] += 1
    (rows, columns), counts = zip(*pairs), np.array(list(pairs.values()), dtype=float)
    sums = np.bincount(rows, weights=counts, minlength=len(ranks))
    ppmi = np.maximum(0, np.log(counts * counts.sum() / (sums[list(rows)] * sums[list(columns)])))
    matrix = csr_matrix((ppmi, (rows, columns)), shape=(len(ranks), len(ranks)))
    expected = np.sort(np.abs(eigsh(matrix, k=dimensions, which="LM", return_eigenvectors=False)))[::-1]
    yield same("words", set(vectors), {word for word, rank in ranks.items() if matrix[[rank]].nnz}, "scipy")
    stacked = np.array(list(vectors.values()))
    values = (stacked ** 2).sum(axis=0)
    yield at_most("relative error of the ten largest eigenvalues", np.abs(values / expected - 1)[:10].max(), 1e-4, "scipy's eigsh")
    yield at_most("part of the sum of all eigenvalues that is missing", 1 - values.sum() / expected.sum(), 1e-2, "scipy's eigsh")
    answer = place.example("analogies", "planteduncle", "plantedduke", "plantedaunt", out).splitlines()[0]
    yield same("uncle is to duke as aunt is to", answer.split("\t")[1], "plantedduchess", "the one who planted it")


JUDGES = {judge.__name__: judge for judge in [kmeans, logistic_regression, linear_regression, pca, naive_bayes, als, word_vectors]}
