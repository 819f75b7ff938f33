//! Finds for each document the ones that are most like it: TF-IDF and cosine, four jobs.
//!
//! ```text
//! cargo run --release --example tfidf -- --local --neighbours 3 documents.tsv OUT
//! ```
//!
//! Reads documents, lines `id<TAB>text`, and writes `id<TAB>neighbour<TAB>cosine`, the nearest first. `--vectors DIR` keeps the vectors, too:
//! `id<TAB>term<TAB>weight`.
//!
//! A term weighs more in a document where it is frequent, and less if many documents have it: how often it is there, times
//! `ln((1 + documents) / (1 + documents with it)) + 1`. A document is the vector of its terms' weights, made one long. How much two are alike
//! is the cosine of the angle between them: the sum, over terms that both have, of the products of the weights.
//!
//! 1. **terms** counts each term of each document. How many documents have the term comes first in its group, by the order of keys (*order
//!    inversion*, as in `cooccurrence`).
//! 2. **vectors** brings the terms of a document together.
//! 3. **products** brings together the documents of a term and multiplies each two weights. A term that most documents have would make nearly
//!    all pairs, and says nothing: terms of more than `--documents-max` documents are left out here. A document without other terms has no
//!    neighbours.
//! 4. **sums** adds up the products of each two documents, and **neighbours** takes the largest sums. Sums of floating-point numbers depend on
//!    the order. Products become whole numbers first, in units of 2⁻⁵⁰, so sums are the same in each run.

use std::process::ExitCode;

use mr_api::datum::Desc;
use mr_api::formats::KeyValueLines;
use mr_api::job::CompleteJob;
use mr_api::{
    Args, Auto, Cluster, Job, Plan, Program, Result, Sum, counters, from_files, intermediate,
    parse, previous, reduce_fn, text, text_out, usage_error,
};

const HELP: &str = "\
Finds for each document the ones that are most like it.

Usage: tfidf [options] IN... OUT

  IN...                  documents: lines `id<TAB>text`
  OUT                    a new directory: lines `id<TAB>neighbour<TAB>cosine`
  --neighbours N         how many neighbours (default 10)
  --documents-max N      terms of more documents find no neighbours (default 1000)
  --vectors DIR          writes lines `id<TAB>term<TAB>weight` to a new directory
";

counters! {
    enum Documents {
        Read,
    }
}

/// What a product counts in.
const UNITS: f64 = (1u64 << 50) as f64;

fn main() -> ExitCode {
    Program::new(HELP).step(terms).step(vectors).step(neighbours).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let count: u64 = args.value("--neighbours")?.unwrap_or(10);
    let documents_max: usize = args.value("--documents-max")?.unwrap_or(1000);
    let kept: Option<String> = args.value("--vectors")?;
    let (inputs, output) = args.inputs_and_output()?;
    if count == 0 || !(2..=1_000_000).contains(&documents_max) {
        return usage_error("--neighbours is at least 1, --documents-max 2 to 1,000,000");
    }
    cluster.check_new(&output)?;
    let terms = cluster.run(terms, &inputs)?;
    let documents = terms.counted(Documents::Read);
    let vectors = cluster.run(vectors, &(terms.path().to_owned(), documents, kept))?;
    cluster.run(neighbours, &(vectors.path().to_owned(), (documents_max, count), output))?;
    Ok(())
}

/// A term, and a document or, for the count of all its documents, none.
type Term = (String, Option<String>);

/// Lines `document<TAB>term<TAB>times there<TAB>documents with it`.
fn terms(inputs: Vec<String>) -> Result<CompleteJob> {
    let input = from_files(inputs, KeyValueLines { separator: b'\t' });
    let job = Job::new("terms").input(input).map_fn::<Term, u64, _>(|(id, text), out| {
        out.count(Documents::Read);
        let (id, text) = (std::str::from_utf8(id)?, String::from_utf8_lossy(text).to_lowercase());
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let mut words: Vec<&str> = words.collect();
        words.sort_unstable();
        words.chunk_by(|a, b| a == b).try_for_each(|same| {
            out.emit((same[0], None::<&str>), 1u64)?;
            out.emit((same[0], Some(id)), same.len() as u64)
        })
    });
    let count = reduce_fn::<Term, u64, _>(|(term, _), counts, out| {
        let mut documents = 0;
        while let Some(count) = counts.next_value()? {
            match counts.current_key()?.1 {
                None => documents += count,
                Some(id) => out.write(id, (&term, count, documents))?,
            }
        }
        Ok(())
    });
    let job = job.group_by_first().combine(Sum).reduce(count).reducers(Auto);
    Ok(job.output(intermediate()))
}

/// The fields of a line.
fn fields<const N: usize>(line: &str) -> Result<[&str; N]> {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.try_into().map_err(|_| format!("`{line}` has other fields").into())
}

/// Lines `document<TAB>term<TAB>weight`.
fn vectors((terms, documents, kept): (String, u64, Option<String>)) -> Result<CompleteJob> {
    let job = Job::new("vectors").input(text([terms])).depends_on(documents);
    let job = job.map_fn::<(String, String), f64, _>(move |line, out| {
        let line = line.to_str_lossy();
        let [id, term, count, with_it] = fields(&line)?;
        let number = |field: &str| parse::<f64>(field, "count", &*line);
        let share = (1.0 + documents as f64) / (1.0 + number(with_it)?);
        out.emit((id, term), number(count)? * (share.ln() + 1.0))
    });
    let lengthen = reduce_fn::<(String, String), f64, _>(|(id, _), weights, out| {
        let (mut terms, mut squares) = (Vec::new(), 0.0);
        while let Some(weight) = weights.next_value()? {
            terms.push((weights.current_key()?.1.to_owned(), weight));
            squares += weight * weight;
        }
        let length = f64::sqrt(squares);
        terms.iter().try_for_each(|(term, weight)| out.write(&id, (term, weight / length)))
    });
    let job = job.group_by_first().reduce(lengthen).reducers(Auto);
    Ok(job.output(kept.map_or(intermediate(), text_out)))
}

/// Lines `document<TAB>neighbour<TAB>cosine`.
fn neighbours(
    (vectors, (documents_max, count), output): (String, (usize, u64), String),
) -> Result<Plan> {
    let products = Job::new("products").input(text([vectors])).depends_on((documents_max, count));
    let products = products.map_fn::<(String, String), f64, _>(|line, out| {
        let line = line.to_str_lossy();
        let [id, term, weight] = fields(&line)?;
        out.emit((term, id), parse::<f64>(weight, "weight", &*line)?)
    });
    let multiply = reduce_fn::<(String, String), f64, _>(move |_, weights, out| {
        let mut documents = Vec::new();
        while let Some(weight) = weights.next_value()? {
            documents.push((weights.current_key()?.1.to_owned(), weight));
            if documents.len() > documents_max {
                return Ok(());
            }
        }
        for (at, (a, weight)) in documents.iter().enumerate() {
            for (b, other) in &documents[at + 1..] {
                out.write(a, (b, (weight * other * UNITS).round() as u64))?;
            }
        }
        Ok(())
    });
    let sums =
        Job::new("sums").input(previous()).map_fn::<(String, String), u64, _>(|line, out| {
            let line = line.to_str_lossy();
            let [a, b, product] = fields(&line)?;
            out.emit((a, b), parse::<u64>(product, "product", &*line)?)
        });
    let nearest = Job::new("neighbours").input(previous());
    let nearest = nearest.map_fn::<(String, (Desc<u64>, String)), (), _>(|line, out| {
        let line = line.to_str_lossy();
        let [a, b, sum] = fields(&line)?;
        let sum = Desc(parse::<u64>(sum, "sum", &*line)?);
        out.emit((a, (sum, b)), ())?;
        out.emit((b, (sum, a)), ())
    });
    let first = reduce_fn::<(String, (Desc<u64>, String)), (), _>(move |(id, _), others, out| {
        for _ in 0..count {
            if others.next_value()?.is_none() {
                break;
            }
            let (_, (Desc(sum), other)) = others.current_key()?;
            out.write(&id, (other, sum as f64 / UNITS))?;
        }
        Ok(())
    });
    let products = products.group_by_first().reduce(multiply).reducers(Auto);
    let sums = sums.combine(Sum).reduce(Sum).reducers(Auto).output(intermediate());
    let nearest = nearest.group_by_first().reduce(first).reducers(Auto).output(text_out(output));
    Ok(Plan::from(products.output(intermediate())).then(sums).then(nearest))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mr_api::LocalRunner;

    use super::*;

    fn documents() -> Vec<(String, Vec<&'static str>)> {
        let words = ["the", "ant", "Bee", "cow", "dog", "elk", "fox", "gnu", "hen"];
        let text = |n: usize| (0..3 + n % 5).map(move |i| words[1 + (n * n + i * (n % 7 + 1)) % 8]);
        (0..30).map(|n| (format!("d{n}"), text(n).chain(["the"]).collect())).collect()
    }

    fn run(options: &[&str]) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines =
            documents().into_iter().map(|(id, words)| format!("{id}\t{}\n", words.join(", ")));
        std::fs::write(path("in"), lines.collect::<String>()).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(1).split_bytes(80));
        let places = [path("vectors"), path("in"), path("out")];
        let all =
            options.iter().copied().chain(["--vectors"]).chain(places.iter().map(String::as_str));
        drive(&mut Args::from_words(all).unwrap(), &cluster).unwrap();
        let read = |name: &str| std::fs::read_to_string(path(name)).unwrap();
        (read("vectors/part-r-00000"), read("out/part-r-00000"))
    }

    /// Weights by the formula, document by document.
    fn slow() -> BTreeMap<String, BTreeMap<String, f64>> {
        let all = documents();
        let lower =
            |words: &[&str]| words.iter().map(|word| word.to_lowercase()).collect::<Vec<_>>();
        let vector = |words: &[&str]| {
            let words = lower(words);
            let weight = |term: &String| {
                let with_it = all.iter().filter(|(_, other)| lower(other).contains(term)).count();
                let times = words.iter().filter(|word| *word == term).count() as f64;
                times * ((1.0 + all.len() as f64) / (1.0 + with_it as f64)).ln() + times
            };
            let terms: BTreeSet<&String> = words.iter().collect();
            let length: f64 = terms.iter().map(|term| weight(term).powi(2)).sum::<f64>().sqrt();
            terms.iter().map(|term| ((*term).clone(), weight(term) / length)).collect()
        };
        all.iter().map(|(id, words)| (id.clone(), vector(words))).collect()
    }

    #[test]
    fn vectors_and_neighbours_are_those_of_comparing_all_documents() {
        let expected = slow();
        let (vectors, neighbours) = run(&["--neighbours", "4"]);
        let mut count = 0;
        for line in vectors.lines() {
            let [id, term, weight] = fields(line).unwrap();
            let weight: f64 = weight.parse().unwrap();
            assert!((weight - expected[id][term]).abs() < 1e-12, "{line}");
            count += 1;
        }
        assert_eq!(count, expected.values().map(BTreeMap::len).sum::<usize>());
        let cosine = |a: &str, b: &str| -> f64 {
            let products =
                expected[a].iter().filter_map(|(term, x)| Some(x * expected[b].get(term)?));
            products.sum()
        };
        let lines: Vec<[&str; 3]> = neighbours.lines().map(|line| fields(line).unwrap()).collect();
        assert_eq!(lines.len(), 4 * 30);
        for four in lines.chunks(4) {
            let id = four[0][0];
            let mut best: Vec<f64> = expected
                .keys()
                .filter(|other| *other != id)
                .map(|other| cosine(id, other))
                .collect();
            best.sort_by(|a, b| b.total_cmp(a));
            for ([same, other, found], best) in four.iter().zip(best) {
                let found: f64 = found.parse().unwrap();
                assert_eq!(*same, id);
                assert!((found - best).abs() < 1e-9 && (found - cosine(id, other)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn terms_of_too_many_documents_find_no_neighbours() {
        // All have `the`.
        let (_, few) = run(&["--documents-max", "2"]);
        let pairs: BTreeSet<&str> =
            few.lines().map(|line| line.split('\t').next().unwrap()).collect();
        assert!(pairs.len() < 30, "{few}");
    }
}
