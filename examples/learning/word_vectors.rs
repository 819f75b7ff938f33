//! Gives words vectors such that words with the same company lie together: co-occurrence, PPMI, and the largest eigenvalues.
//!
//! ```text
//! cargo run --release -p learning --example word_vectors -- --local text.txt VECTORS
//! ```
//!
//! The steps are jobs of their own:
//!
//! 1. **words** counts words, and keeps the `--vocabulary` most frequent ones: a secondary sort by count.
//! 2. **pairs** counts how often each two of them stand within `--window` words of each other in a line. A word is its rank from here on. The
//!    vocabulary is a side file.
//! 3. **sums** adds up the pairs of each word.
//! 4. **vectors** weighs pairs: what counts is how much more often two words meet than chance would have it, `ln(p(a, b) / (p(a) p(b)))`, and
//!    not below 0 (PPMI). The large matrix of these is symmetric and sparse. A job in rounds finds its largest eigenvalues
//!    ([`learning::spectrum`]), whose eigenvectors have most of what the matrix says in few numbers for each word.
//! 5. **names** puts words in place of ranks.
//!
//! The program `analogies` answers questions with the vectors.

use std::collections::HashMap;
use std::fs;
use std::process::ExitCode;

use learning::spectrum::{COUNT_MAX, Spectrum, entry};
use learning::text::{each_word, vocabulary};
use mr_api::job::CompleteJob;
use mr_api::{
    Always, Args, Auto, Cluster, Context, Done, Emit, Job, Line, Lines, Mapper, Program, Result,
    Sink, Sum, intermediate, parse, text, text_out, usage_error,
};

const HELP: &str = "\
Makes vectors of words.

Usage: word_vectors [options] IN... OUT

  IN...                  text files
  OUT                    a new directory: lines `word<TAB>numbers`
  --vocabulary N         how many words get a vector, the most frequent ones (default 20000)
  --window N             words on each side that are company (default 5)
  --dimensions N         numbers of a vector (default 100)
  --rounds N             iterations (default 12)
";

fn main() -> ExitCode {
    let program = Program::new(HELP).step(vocabulary).step(pairs).step(sums);
    program.step(vectors).step(names).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let most = args.value("--vocabulary")?.unwrap_or(20_000u32);
    let window = args.value("--window")?.unwrap_or(5usize);
    let count = args.value("--dimensions")?.unwrap_or(100);
    let rounds = args.value("--rounds")?.unwrap_or(12u32);
    let (inputs, output) = args.inputs_and_output()?;
    if !(1..=COUNT_MAX).contains(&count) || !(1..=100).contains(&window) || rounds == 0 {
        return usage_error("--dimensions is 1 to 200, --window 1 to 100, --rounds at least 1");
    }
    cluster.check_new(&output)?;
    let path = |done: &Done<'_>| done.path().to_owned();
    let words = cluster.run(vocabulary, &(inputs.clone(), most))?;
    let pairs = cluster.run(pairs, &(inputs, path(&words), window))?;
    let sums = cluster.run(sums, &path(&pairs))?;
    let found = cluster.run(vectors, &((path(&pairs), path(&sums)), count, rounds))?;
    cluster.run(names, &(path(&found), path(&words), output))?;
    Ok(())
}

/// The lines of a side file.
fn side_lines(context: &Context, name: &str) -> Result<Vec<String>> {
    Ok(fs::read_to_string(context.side_file(name)?)?.lines().map(str::to_owned).collect())
}

/// Counts which words of the vocabulary, by rank, stand near each other: lines `rank<TAB>rank<TAB>count`.
fn pairs((inputs, words, window): (Vec<String>, String, usize)) -> Result<CompleteJob> {
    let job = Job::new("pairs").side_file(&format!("{words}/part-r-00000#words"))?;
    let pairs = Pairs { window, ranks: HashMap::new(), line: Vec::new() };
    let job = job.depends_on(window).input(text(inputs)).map(pairs).combine(Sum).reduce(Sum);
    Ok(job.reducers(Auto).output(intermediate()))
}

#[derive(Clone)]
struct Pairs {
    window: usize,
    ranks: HashMap<String, u32>,
    line: Vec<u32>,
}

impl Mapper for Pairs {
    type In = Lines;
    type Key = (u32, u32);
    type Value = u64;

    fn setup(&mut self, context: &Context) -> Result<()> {
        self.ranks = side_lines(context, "words")?.into_iter().zip(0..).collect();
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<(u32, u32), u64, S>) -> Result<()> {
        self.line.clear();
        each_word(line.bytes, |word| {
            self.line.extend(self.ranks.get(word));
            Ok(())
        })?;
        for (at, a) in self.line.iter().enumerate() {
            for b in self.line[at + 1..].iter().take(self.window) {
                out.emit((*a, *b), 1u64)?;
                out.emit((*b, *a), 1u64)?;
            }
        }
        Ok(())
    }
}

/// The numbers of a line.
fn numbers<const N: usize>(line: Line<'_>) -> Result<[u64; N]> {
    let numbers = line.to_str_lossy().split('\t').map(str::parse).collect::<Result<Vec<_>, _>>()?;
    numbers.try_into().map_err(|_| "a line has other numbers".into())
}

fn sums(pairs: String) -> Result<CompleteJob> {
    let job = Job::new("sums").input(text([pairs])).map_fn::<u32, u64, _>(|line, out| {
        let [a, _, count] = numbers(line)?;
        out.emit(u32::try_from(a)?, count)
    });
    let job = job.combine(Sum).reduce(Sum).reducers(Always(1));
    Ok(job.output(intermediate()))
}

fn vectors(((pairs, sums), count, rounds): ((String, String), usize, u32)) -> Result<CompleteJob> {
    let job = Job::new("vectors").side_file(&format!("{sums}/part-r-00000#sums"))?;
    let job = job.input(text([pairs])).map(Weigh::default()).depends_on(count);
    let job = job.rounds(Spectrum::new(count), rounds.saturating_add(2));
    Ok(job.reducers(Auto).output(intermediate()))
}

/// Emits how much more often than by chance two words meet.
#[derive(Clone, Default)]
struct Weigh {
    all: f64,
    sums: HashMap<u64, f64>,
}

impl Mapper for Weigh {
    type In = Lines;
    type Key = u32;
    type Value = Vec<u8>;

    fn setup(&mut self, context: &Context) -> Result<()> {
        for line in side_lines(context, "sums")? {
            let [rank, sum] = numbers(Line { offset: 0, bytes: line.as_bytes() })?;
            self.sums.insert(rank, sum as f64);
        }
        self.all = self.sums.values().sum();
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<u32, Vec<u8>, S>) -> Result<()> {
        let [a, b, count] = numbers(line)?;
        let sum = |rank| self.sums.get(&rank).ok_or("a word without a sum");
        let by_chance = sum(a)? * sum(b)? / self.all;
        let weight = (count as f64 / by_chance).ln();
        if weight > 0.0 { out.emit(a as u32, entry(b as u32, weight)) } else { Ok(()) }
    }
}

/// Puts words in place of ranks.
fn names((vectors, words, output): (String, String, String)) -> Result<CompleteJob> {
    let job = Job::new("names").side_file(&format!("{words}/part-r-00000#words"))?;
    Ok(job.input(text([vectors])).map(Names::default()).output(text_out(output)))
}

#[derive(Clone, Default)]
struct Names(Vec<String>);

impl Mapper for Names {
    type In = Lines;
    type Key = String;
    type Value = String;

    fn setup(&mut self, context: &Context) -> Result<()> {
        self.0 = side_lines(context, "words")?;
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<String, String, S>) -> Result<()> {
        let line = line.to_str_lossy();
        let (rank, vector) = line.split_once('\t').ok_or("a line is no vector")?;
        let number = parse::<usize>(rank, "rank", &*line)?;
        let word = self.0.get(number).ok_or_else(|| format!("no word has the rank {rank}"))?;
        out.emit(word, vector)
    }
}

#[cfg(test)]
mod tests {
    use learning::chance;
    use learning::least_squares::product;
    use learning::rows::parse;
    use mr_api::LocalRunner;

    use super::*;

    /// The vectors of the words of a text.
    pub(crate) fn vectors_of(text: &str, options: &[&str]) -> HashMap<String, Vec<f64>> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        fs::write(path("in"), text).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(3).split_bytes(5000));
        let places = [path("in"), path("out")];
        let words = options.iter().copied().chain(places.iter().map(String::as_str));
        drive(&mut Args::from_words(words).unwrap(), &cluster).unwrap();
        let mut vectors = HashMap::new();
        for part in fs::read_dir(path("out")).unwrap() {
            for line in fs::read_to_string(part.unwrap().path()).unwrap().lines() {
                let (word, numbers) = line.split_once('\t').unwrap();
                let mut vector = Vec::new();
                parse(numbers.as_bytes(), &mut vector).unwrap();
                vectors.insert(word.to_owned(), vector);
            }
        }
        vectors
    }

    /// Lines about two subjects, with words of their own.
    fn two_subjects() -> String {
        let line = |n: u64| {
            let word = |i: u64| {
                let subject = if n.is_multiple_of(2) { "sea" } else { "hill" };
                format!("{subject}{}", (chance(n, i) * 6.0) as u32)
            };
            (0..8).map(word).collect::<Vec<_>>().join(" ") + "\n"
        };
        (0..300).map(line).collect()
    }

    #[test]
    fn products_of_vectors_are_what_the_matrix_of_all_eigenvalues_says() {
        // With as many dimensions as words, M² is that of the squares of the vectors' products' sums: |M| = V Vᵀ.
        let text = two_subjects();
        let vectors = vectors_of(&text, &["--dimensions", "12", "--rounds", "8"]);
        assert_eq!(vectors.len(), 12);
        let mut counts = HashMap::<(&str, &str), f64>::new();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            for (a, b) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
                if a != b && usize::abs_diff(a, b) <= 5 {
                    *counts.entry((words[a], words[b])).or_default() += 1.0;
                }
            }
        }
        let all: f64 = counts.values().sum();
        let sum = |word: &str| -> f64 {
            counts.iter().filter(|((a, _), _)| *a == word).map(|(_, count)| count).sum()
        };
        let names: Vec<&String> = vectors.keys().collect();
        let size = names.len();
        let matrix = nalgebra::DMatrix::from_fn(size, size, |a, b| {
            let count = counts.get(&(names[a].as_str(), names[b].as_str())).copied().unwrap_or(0.0);
            (count * all / (sum(names[a]) * sum(names[b]))).ln().max(0.0)
        });
        let square = nalgebra::DMatrix::from_fn(size, size, |a, b| {
            product(&vectors[names[a]], &vectors[names[b]])
        });
        let apart = (&square * &square - &matrix * &matrix).abs().max();
        assert!(apart < 1e-6, "{apart}");
    }

    #[test]
    fn words_of_a_subject_lie_together() {
        let vectors = vectors_of(&two_subjects(), &["--dimensions", "2", "--vocabulary", "10"]);
        assert_eq!(vectors.len(), 10);
        for (a, x) in &vectors {
            for (b, y) in &vectors {
                let cosine = product(x, y) / (product(x, x) * product(y, y)).sqrt();
                assert_eq!(cosine > 0.5, a[..3] == b[..3], "{a}, {b}: {cosine}");
            }
        }
    }
}
