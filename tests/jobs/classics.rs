//! The classic programs of `examples/` and `examples/learning/` on a cluster: each result is compared with one that was computed another way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use super::programs::put;
use crate::support::{Cluster, Options, data};

/// One cluster for all: starting one takes longer than any of the jobs.
#[test]
fn classics_on_a_cluster() {
    let cluster = Cluster::start(Options::tight());
    numbers(&cluster);
    texts(&cluster);
    graphs(&cluster);
    joins(&cluster);
    points(&cluster);
    regressions(&cluster);
    labels(&cluster);
    ratings(&cluster);
    words(&cluster);
}

/// Puts text into a file.
fn give(cluster: &Cluster, path: &str, text: &str) {
    put(cluster, path, text.as_bytes());
}

/// Runs an example; what it prints.
fn run(cluster: &Cluster, example: &str, words: &[&str]) -> String {
    cluster.example(example, words).ok().stdout_text()
}

/// The lines of an output, sorted.
fn lines(cluster: &Cluster, directory: &str) -> Vec<String> {
    let cat = cluster.dfs(&["-cat", &format!("{directory}/part-*")]).ok();
    let mut lines: Vec<String> = cat.stdout_text().lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn sorted<T: Display>(items: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut lines: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    lines.sort();
    lines
}

/// The last field of a line, as numbers.
fn last(line: &str) -> Vec<f64> {
    line.rsplit('\t').next().unwrap().split(' ').map(|word| word.parse().unwrap()).collect()
}

/// The last number of each line.
fn weights(text: &str) -> Vec<f64> {
    text.lines().map(|line| last(line)[0]).collect()
}

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], most: f64) {
    assert_eq!(found.len(), expected.len(), "{found:?} and {expected:?}");
    let apart = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
    assert!(apart.fold(0.0, f64::max) < most, "{found:?} and {expected:?}");
}

fn numbers(cluster: &Cluster) {
    // What Hadoop's own program prints.
    assert!(run(cluster, "pi", &["16", "1000"]).contains(" 3.14250000"));

    let all: Vec<u64> = (0..500).map(|n| n * n * 7919 % 701).collect();
    give(cluster, "/numbers/in", &sorted(&all).join("\n"));
    run(cluster, "topk", &["top", "5", "/numbers", "/top"]);
    let mut largest = all.clone();
    largest.sort_unstable();
    assert_eq!(lines(cluster, "/top"), sorted(&largest[495..]));
    run(cluster, "topk", &["distinct", "/numbers", "/distinct"]);
    let runs = largest.chunk_by(|a, b| a == b).map(|run| format!("{}\t{}", run[0], run.len()));
    assert_eq!(lines(cluster, "/distinct"), sorted(runs));

    give(cluster, "/keyed/in", &sorted(all.iter().map(|n| format!("{}\t{n}", n % 3))).join("\n"));
    run(cluster, "mean_variance", &["--reducers", "2", "/keyed", "/spread"]);
    for line in lines(cluster, "/spread") {
        let fields: Vec<f64> = line.split('\t').map(|field| field.parse().unwrap()).collect();
        let of_key = all.iter().filter(|n| (**n % 3) as f64 == fields[0]).map(|n| *n as f64);
        let (count, sum, squares) =
            of_key.fold((0.0, 0.0, 0.0), |(a, b, c), x| (a + 1.0, b + x, c + x * x));
        let mean = sum / count;
        assert_near(&fields[1..], &[count, mean, squares / count - mean * mean], 1e-6);
    }

    let visits: Vec<(u64, u64)> = (0..300).map(|n| (n % 4, n * n * 31 % 9973)).collect();
    let log = visits.iter().map(|(visitor, time)| format!("v{visitor}\t{time}\t/page"));
    give(cluster, "/log/in", &log.collect::<Vec<_>>().join("\n"));
    run(cluster, "sessions", &["--break", "60", "/log", "/sessions"]);
    let mut times = BTreeMap::<u64, BTreeSet<(u64, usize)>>::new();
    for (at, (visitor, time)) in visits.iter().enumerate() {
        times.entry(*visitor).or_default().insert((*time, at));
    }
    let mut expected = Vec::new();
    for (visitor, times) in times {
        let times: Vec<u64> = times.into_iter().map(|(time, _)| time).collect();
        expected.extend(times.chunk_by(|a, b| b - a < 60).map(|session| {
            let (begin, pages) = (session[0], session.len());
            format!("v{visitor}\t{begin}\t{}\t{pages}", session[pages - 1] - begin)
        }));
    }
    assert_eq!(lines(cluster, "/sessions"), sorted(expected));
}

fn texts(cluster: &Cluster) {
    let (a, b) = ("Call me Ishmael\nsome years ago me\n", "me and some call\n");
    give(cluster, "/books/a", a);
    give(cluster, "/books/b", b);
    run(cluster, "inverted_index", &["/books", "/index"]);
    let mut places = BTreeMap::<String, BTreeMap<&str, Vec<String>>>::new();
    for (name, text) in [("a", a), ("b", b)] {
        let mut at = 0;
        for word in text.split([' ', '\n']) {
            let of_word = places.entry(word.to_lowercase()).or_default();
            of_word.entry(name).or_default().push(at.to_string());
            at += word.len() + 1;
        }
    }
    places.remove("");
    let expected = places.iter().map(|(word, places)| {
        let documents = places.iter().map(|(name, at)| format!("{name}:{}", at.join(",")));
        format!("{word}\t{}", documents.collect::<Vec<_>>().join(" "))
    });
    assert_eq!(lines(cluster, "/index"), sorted(expected));

    run(cluster, "cooccurrence", &["--reducers", "2", "pairs", "1", "/books", "/pairs"]);
    run(cluster, "cooccurrence", &["--reducers", "2", "stripes", "1", "/books", "/stripes"]);
    run(cluster, "cooccurrence", &["ngrams", "2", "/books", "/bigrams"]);
    let bigrams: Vec<(&str, &str)> = [a, b]
        .into_iter()
        .flat_map(str::lines)
        .flat_map(|line| line.split(' ').zip(line.split(' ').skip(1)))
        .collect();
    let both: Vec<_> = bigrams.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    let part = |&(word, other): &(&str, &str)| {
        let count = both.iter().filter(|pair| **pair == (word, other)).count();
        let all = both.iter().filter(|pair| pair.0 == word).count();
        format!("{word}\t{other}\t{}", count as f64 / all as f64)
    };
    let parts: BTreeSet<String> = both.iter().map(part).collect();
    assert_eq!(lines(cluster, "/pairs"), sorted(&parts));
    assert_eq!(lines(cluster, "/stripes"), sorted(&parts));
    assert_eq!(
        lines(cluster, "/bigrams"),
        sorted(bigrams.iter().map(|(a, b)| format!("{a} {b}\t1")))
    );

    // Two of three documents have a word of their own in common.
    give(cluster, "/documents/in", "x\tred red\ny\tred blue\nz\tgreen\n");
    run(cluster, "tfidf", &["--vectors", "/weights", "/documents", "/alike"]);
    let (red, blue) = ((4.0f64 / 3.0).ln() + 1.0, 2.0f64.ln() + 1.0);
    let length = (red * red + blue * blue).sqrt();
    let found = lines(cluster, "/weights");
    let weights: Vec<f64> = found.iter().map(|line| last(line)[0]).collect();
    assert_near(&weights, &[1.0, blue / length, red / length, 1.0], 1e-9);
    let alike = lines(cluster, "/alike");
    assert!(alike[0].starts_with("x\ty\t") && alike[1].starts_with("y\tx\t"), "{alike:?}");
    assert_near(&[last(&alike[0])[0]], &[red / length], 1e-9);
}

/// Edges among 90 nodes in three parts.
fn edges() -> Vec<(usize, usize)> {
    let edge = |i: usize| {
        let part = i % 3 * 30;
        (part + i * i * 31 % 29, part + i * 57 % 29)
    };
    (0..270).map(edge).filter(|(a, b)| a != b).collect()
}

fn graphs(cluster: &Cluster) {
    let edges = edges();
    let text: Vec<String> = edges.iter().map(|(a, b)| format!("{a} {b}")).collect();
    give(cluster, "/edges/in", &text.join("\n"));
    let linked: BTreeSet<(usize, usize)> =
        edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
    let nodes: BTreeSet<usize> = linked.iter().map(|(node, _)| *node).collect();

    run(cluster, "connected_components", &["--reducers", "2", "/edges", "/components"]);
    let mut names: BTreeMap<usize, usize> = nodes.iter().map(|node| (*node, *node)).collect();
    for _ in &nodes {
        for (a, b) in &linked {
            let least = names[a].min(names[b]);
            names.insert(*a, least);
        }
    }
    let expected = names.iter().map(|(node, name)| format!("{node}\t{name}"));
    assert_eq!(lines(cluster, "/components"), sorted(expected));

    let ways = edges.iter().map(|(a, b)| format!("{a}\t{b}\t{}", (a + b) % 5));
    give(cluster, "/ways/in", &ways.collect::<Vec<_>>().join("\n"));
    let from = edges[0].0;
    run(cluster, "shortest_paths", &["--from", &from.to_string(), "/ways", "/distances"]);
    let mut far = BTreeMap::from([(from, 0)]);
    for _ in &nodes {
        for (a, b) in &edges {
            if let Some(known) = far.get(a).copied() {
                let offer = known + (a + b) % 5;
                let entry = far.entry(*b).or_insert(offer);
                *entry = offer.min(*entry);
            }
        }
    }
    let expected = far.iter().map(|(node, far)| format!("{node}\t{far}"));
    assert_eq!(lines(cluster, "/distances"), sorted(expected));

    let printed = run(cluster, "triangles", &["--reducers", "2", "/edges", "/triangles"]);
    let (mut counts, mut all) = (BTreeMap::<usize, u64>::new(), 0);
    for &(a, b) in linked.iter().filter(|(a, b)| a < b) {
        for c in b + 1..90 {
            if linked.contains(&(a, c)) && linked.contains(&(b, c)) {
                all += 1;
                [a, b, c].iter().for_each(|corner| *counts.entry(*corner).or_default() += 1);
            }
        }
    }
    assert_eq!(printed, format!("{all} triangles\n"));
    let expected = counts.iter().map(|(node, count)| format!("{node}\t{count}"));
    assert_eq!(lines(cluster, "/triangles"), sorted(expected));
}

fn joins(cluster: &Cluster) {
    let users: Vec<String> = (0..500).step_by(10).map(|id| format!("{id}\tuser{id}")).collect();
    let visits: Vec<usize> = (0..2000).map(|n| n * 7919 % 500).collect();
    let pages = visits.iter().enumerate().map(|(n, id)| format!("{id}\t/page{n}"));
    give(cluster, "/bloom/users", &users.join("\n"));
    give(cluster, "/bloom/visits", &pages.collect::<Vec<_>>().join("\n"));
    let words = ["--bits", "500", "/bloom/users", "/bloom/visits", "/bloomed"];
    let told = cluster.example("bloom_join", &words).ok().stderr;
    let known = visits.iter().enumerate().filter(|(_, id)| **id % 10 == 0);
    let expected = sorted(known.map(|(n, id)| format!("user{id}\t/page{n}")));
    assert_eq!(lines(cluster, "/bloomed"), expected);
    let told = told.lines().find(|line| line.starts_with("the filter dropped")).unwrap();
    let counts = told.split(' ').filter_map(|word| word.parse::<usize>().ok());
    assert_eq!(counts.sum::<usize>(), visits.len() - expected.len(), "{told}");
}

/// Points in three heaps, of two numbers and their sum.
fn heaps() -> Vec<[f64; 3]> {
    let mut random = data::Choices::new(5);
    let point = |n: usize| {
        let [x, y] = [0, 1].map(|axis| {
            [[0, 0], [500, 90], [-80, 700]][n % 3][axis] as f64 + random.below(40) as f64
        });
        [x, y, x + y]
    };
    (0..240).map(point).collect()
}

fn text_of<const N: usize>(rows: &[[f64; N]]) -> String {
    rows.iter().map(|row| row.map(|x| x.to_string()).join(" ") + "\n").collect()
}

fn points(cluster: &Cluster) {
    let points = heaps();
    give(cluster, "/points/in", &text_of(&points));
    let words = ["--k", "3", "--reducers", "2", "/points", "/groups"];
    let mut centres: Vec<Vec<f64>> = run(cluster, "kmeans", &words).lines().map(last).collect();
    centres.sort_by(|a, b| a[0].total_cmp(&b[0]));
    for (centre, heap) in centres.iter().zip([2, 0, 1]) {
        let heap: Vec<&[f64; 3]> = points.iter().skip(heap).step_by(3).collect();
        let mean = |axis: usize| heap.iter().map(|point| point[axis]).sum::<f64>() / 80.0;
        assert_near(centre, &[mean(0), mean(1), mean(2)], 1e-9);
    }
    assert_eq!((centres.len(), lines(cluster, "/groups").len()), (3, 240));

    // The third number is the sum of the others, so there is no variance along (1, 1, -1).
    let printed = run(cluster, "pca", &["--projections", "/projected", "/points"]);
    let components: Vec<&str> = printed.lines().collect();
    assert_eq!((components.len(), lines(cluster, "/projected").len()), (3, 240));
    let variances: Vec<f64> =
        components.iter().map(|line| line.split('\t').nth(1).unwrap().parse().unwrap()).collect();
    let variance = |axis: usize| {
        let mean = points.iter().map(|point| point[axis]).sum::<f64>() / 240.0;
        points.iter().map(|point| (point[axis] - mean).powi(2)).sum::<f64>() / 239.0
    };
    let all: f64 = (0..3).map(variance).sum();
    assert_near(&[variances.iter().sum::<f64>() / all, variances[2]], &[1.0, 0.0], 1e-6);
    let third = 1.0 / 3.0f64.sqrt();
    assert_near(&last(components[2]).map_abs(), &[third; 3], 1e-6);
}

/// Absolute values.
trait MapAbs {
    fn map_abs(&self) -> Vec<f64>;
}

impl MapAbs for Vec<f64> {
    fn map_abs(&self) -> Vec<f64> {
        self.iter().map(|x| x.abs()).collect()
    }
}

fn regressions(cluster: &Cluster) {
    let row = |n: u32| {
        let (x, y) = (f64::from(n * 7 % 31), f64::from(n * n % 17));
        [3.0 - 0.5 * x + 2.0 * y, x, y]
    };
    give(cluster, "/plane/in", &text_of(&(0..60).map(row).collect::<Vec<_>>()));
    let exact = run(cluster, "linear_regression", &["/plane"]);
    assert_near(&weights(&exact), &[3.0, -0.5, 2.0], 1e-9);
    let words = ["--descent", "--accuracy", "1e-6", "--reducers", "2", "/plane"];
    assert_near(&weights(&run(cluster, "linear_regression", &words)), &[3.0, -0.5, 2.0], 1e-3);

    // Of 40 records with 0, 10 are of kind 1; of 30 with 1, 24 are.
    let records = [("0 0\n", 30), ("1 0\n", 10), ("0 1\n", 6), ("1 1\n", 24)];
    give(cluster, "/kinds/in", &records.map(|(line, count)| line.repeat(count)).concat());
    let found = run(cluster, "logistic_regression", &["--accuracy", "1e-6", "/kinds"]);
    let logit = |p: f64| (p / (1.0 - p)).ln();
    assert_near(&weights(&found), &[logit(0.25), logit(0.8) - logit(0.25)], 1e-4);
}

fn labels(cluster: &Cluster) {
    give(cluster, "/mails/in", "tea\tgreen leaf leaf\ntea\tleaf cup\ncoffee\tbean cup\n");
    give(cluster, "/new/in", "1\tleaf, LEAF\n2\tbean\n3\tsoup\n4\tcup cup bean\n");
    run(cluster, "naive_bayes", &["train", "/mails", "/model"]);
    let model = "hanno:///model/part-r-00000#model";
    run(cluster, "naive_bayes", &["--files", model, "classify", "/new", "/labelled"]);
    // Five words of tea and two of coffee, of four different ones: `soup` says nothing, and tea has two texts of three.
    let tea = |counts: &[f64]| counts.iter().map(|n| (n + 1.0) / 9.0).product::<f64>() * 2.0;
    let coffee = |counts: &[f64]| counts.iter().map(|n| (n + 1.0) / 6.0).product::<f64>();
    let texts = [(&[3.0, 3.0][..], &[0.0, 0.0][..]), (&[0.0], &[1.0]), (&[], &[])];
    let texts = texts.into_iter().chain([(&[1.0, 1.0, 0.0][..], &[1.0, 1.0, 1.0][..])]);
    let label = |(t, c): (&[f64], &[f64])| if tea(t) > coffee(c) { "tea" } else { "coffee" };
    let expected = texts.map(label).zip(1..).map(|(label, n)| format!("{n}\t{label}"));
    assert_eq!(lines(cluster, "/labelled"), sorted(expected));
}

fn ratings(cluster: &Cluster) {
    let (user, item) = (|u: usize| 1.0 + (u % 5) as f64, |i: usize| 0.5 + (i % 3) as f64);
    let all = (0..20).flat_map(|u| (0..15).map(move |i| (u, i))).filter(|(u, i)| (u + i) % 4 > 0);
    let text = all.map(|(u, i)| format!("{u} {i} {}\n", user(u) * item(i)));
    give(cluster, "/ratings/in", &text.collect::<String>());
    let options = ["--rank", "1", "--regularisation", "1e-9", "--rounds", "20", "--reducers", "2"];
    let printed = run(cluster, "als", &[&options[..], &["/ratings", "/factors"]].concat());
    let errors = weights(&printed);
    assert!(errors.len() == 40 && errors[39] < 1e-6, "{printed}");
    let vectors: BTreeMap<String, f64> = lines(cluster, "/factors")
        .iter()
        .map(|line| (line.rsplit_once('\t').unwrap().0.to_owned(), last(line)[0]))
        .collect();
    assert_eq!(vectors.len(), 35);
    // Also those that were left out.
    for (u, i) in (0..20).flat_map(|u| (0..15).map(move |i| (u, i))) {
        let found = vectors[&format!("user\t{u}")] * vectors[&format!("item\t{i}")];
        assert_near(&[found], &[user(u) * item(i)], 1e-4);
    }
}

fn words(cluster: &Cluster) {
    // Who goes where, by sex and by office: the company of each word says what it is.
    let people = [("man", "he", "field"), ("woman", "she", "field"), ("king", "he", "throne")];
    let people = people.into_iter().chain([("queen", "she", "throne")]);
    let text: String = people
        .map(|(word, sex, place)| format!("{word} {sex}\n{word} {place}\n").repeat(50))
        .collect();
    give(cluster, "/corpus/in", &text);
    let options = ["--dimensions", "8", "--window", "1", "--reducers", "2"];
    run(cluster, "word_vectors", &[&options[..], &["/corpus", "/vectors"]].concat());
    assert_eq!(lines(cluster, "/vectors").len(), 8);
    let answers = run(cluster, "analogies", &["man", "king", "woman", "/vectors"]);
    assert!(answers.lines().next().unwrap().ends_with("\tqueen"), "{answers}");
}
