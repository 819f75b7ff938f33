//! Learns what users like from their ratings: alternating least squares, a job in rounds.
//!
//! ```text
//! cargo run --release -p learning --example als -- --local --rank 10 ratings.txt OUT
//! ```
//!
//! Reads lines `user item rating`, separated by spaces or tabs, users and items as numbers. Gives each user and each item a vector of `--rank`
//! numbers, such that the product of two vectors is about the rating (Zhou and others, *Large-scale Parallel Collaborative Filtering for the
//! Netflix Prize*, 2008). Writes `user<TAB>number<TAB>vector` and `item<TAB>number<TAB>vector`; prints the root of the mean square of what is
//! wrong after each round.
//!
//! With the vectors of items fixed, that of a user is the solution of a small linear system of its own ratings, and the other way round. So in
//! odd rounds users solve, and in even ones items. Users and items are the keys, their ratings are fixed, the vectors are the states.
//! A vector goes with its rating in a message to each who needs it.
//!
//! A node gets its messages joined to a list, in an order that depends on where they come from. Sums of floating-point numbers depend on the
//! order, too. So the node sorts the list first, and the result has the same bytes in each run.
//! The lists that a task makes in a round must fit in its memory: a vector for each rating that its nodes gave or got. More tasks
//! (`--reducers`) make that less for each.

use std::io::Write;
use std::process::ExitCode;

use learning::chance;
use learning::ratings::{entry_bytes, rating_bytes, ratings, read, solve, write_entry};
use learning::rows::{lines_with, unpack, words};
use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{
    Args, Auto, Cluster, Emit, Job, Output, Program, Result, Sink, text, text_out, usage_error,
};

const HELP: &str = "\
Learns vectors of users and items from ratings.

Usage: als [options] IN... OUT

  IN...                  lines `user item rating`: whole numbers, and a number
  OUT                    a new directory: lines `user<TAB>number<TAB>vector`, and the same of items
  --rank N               numbers of a vector, 1 to 50 (default 10)
  --regularisation X     how much large vectors are avoided, for each rating (default 0.1)
  --rounds N             how often users and items solve (default 10)
";

/// In front of the lines of errors.
const ERROR: &str = "rmse\t";

fn main() -> ExitCode {
    Program::new(HELP).step(factorise).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let rank = args.value("--rank")?.unwrap_or(10);
    let regularisation = args.value("--regularisation")?.unwrap_or(0.1);
    let rounds = args.value("--rounds")?.unwrap_or(10);
    if !(1..=50).contains(&rank) || !(0.0..1e9).contains(&regularisation) || rounds > 1000 {
        return usage_error(
            "--rank is 1 to 50, --regularisation at least 0, --rounds at most 1000",
        );
    }
    let (inputs, output) = args.inputs_and_output()?;
    let done = cluster.run(factorise, &(inputs, (rank, regularisation, rounds), output))?;
    lines_with(&done, ERROR, |error| Ok(writeln!(mr_api::stdout(), "{error}")?))
}

/// True for an item; its number, or the user's.
type Node = (bool, u64);

fn name((is_item, _): Node) -> &'static str {
    if is_item { "item" } else { "user" }
}

fn factorise(
    (inputs, (rank, regularisation, rounds), output): (Vec<String>, (usize, f64, u32), String),
) -> Result<CompleteJob> {
    let job = Job::new("als").input(text(inputs)).map_fn::<Node, Vec<u8>, _>(|line, out| {
        let (user, item, rating) = read(&line.to_str_lossy())?;
        out.emit((false, user), rating_bytes(item, rating))?;
        out.emit((true, item), rating_bytes(user, rating))
    });
    let factors = Factors { rank, regularisation, ..Factors::default() };
    let job = job.depends_on((rank, regularisation)).rounds(factors, 2 * rounds + 1);
    Ok(job.reducers(Auto).output(text_out(output)))
}

/// Solves for vectors.
#[derive(Clone, Default)]
struct Factors {
    rank: usize,
    regularisation: f64,
    /// Whether items solve and send in this round, not users.
    is_of_items: bool,
    /// After each round so far.
    errors: Vec<f64>,
    vector: Vec<f64>,
    message: Vec<u8>,
}

/// The sum of the squares of errors, and how many ratings; what the errors were before, from one of the tasks.
type Errors = Serde<(f64, u64, Vec<f64>)>;

impl Rounds for Factors {
    type Key = Node;
    type Fixed = Vec<u8>;
    type State = Vec<u8>;
    type Message = Vec<u8>;
    type Summary = Errors;

    fn setup(&mut self, round: &mut Round<'_, Errors>) -> Result<()> {
        self.is_of_items = round.number().is_multiple_of(2);
        if let Some(Serde((squares, count, errors))) = round.total() {
            self.errors.clone_from(errors);
            self.errors.extend((*count > 0).then(|| (squares / *count as f64).sqrt()));
        }
        if round.partition() == 0 {
            round.summary().0.2.clone_from(&self.errors);
        }
        Ok(())
    }

    fn join(&self, into: &mut Vec<u8>, other: Vec<u8>) -> Result<()> {
        into.extend_from_slice(&other);
        Ok(())
    }

    /// Anything does to begin with, as long as items differ.
    fn begin(
        &mut self,
        node: Node,
        _: Option<&[u8]>,
        _: &mut Round<'_, Errors>,
    ) -> Result<Vec<u8>> {
        let places = 0..self.rank as u64;
        Ok(places.flat_map(|place| (chance(node.1, place) - 0.5).to_le_bytes()).collect())
    }

    fn update(
        &mut self,
        node: Entry<'_, Self>,
        messages: Option<Vec<u8>>,
        round: &mut Round<'_, Errors>,
    ) -> Result<Vec<u8>> {
        // Nobody asks for the errors of the last round.
        let Some(messages) = messages.filter(|_| !round.is_over()) else {
            return Ok(node.state.to_vec());
        };
        let Some((vector, squares)) = solve(&messages, self.rank, self.regularisation)? else {
            let (what, few) = (name(node.key), "has too few ratings: give more --regularisation");
            return Err(format!("{what} {} {few}", node.key.1).into());
        };
        let Serde((sum, count, _)) = round.summary();
        *sum += squares;
        *count += (messages.len() / entry_bytes(self.rank)) as u64;
        Ok(vector.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    fn send<S: Sink>(
        &mut self,
        node: Entry<'_, Self>,
        out: &mut Emit<Node, Vec<u8>, S>,
    ) -> Result<()> {
        let (is_item, number) = node.key;
        if is_item != self.is_of_items {
            return Ok(());
        }
        ratings(node.fixed).try_for_each(|(other, rating)| {
            write_entry((number, rating), node.state, &mut self.message);
            out.emit((!is_item, other), self.message.as_slice())
        })
    }

    fn combine(&self, into: &mut Vec<u8>, other: Vec<u8>) {
        into.extend_from_slice(&other);
    }

    fn add(&self, Serde(into): &mut Errors, Serde((squares, count, errors)): Errors) {
        into.0 += squares;
        into.1 += count;
        into.2.extend(errors);
    }

    fn measure(&self, _: u32, Serde((squares, count, _)): &Errors) -> Option<f64> {
        (*count > 0).then(|| (squares / *count as f64).sqrt())
    }

    fn write(&mut self, node: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        unpack(node.state, &mut self.vector);
        out.write((name(node.key), node.key.1), words(&self.vector))
    }

    fn finish(&mut self, round: &mut Round<'_, Errors>, out: &mut Output) -> Result<()> {
        let mut numbered = (1u64..).zip(self.errors.iter().filter(|_| round.partition() == 0));
        numbered.try_for_each(|(number, error)| {
            out.write_to("errors", format!("{ERROR}{number}"), *error)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use learning::least_squares::product;
    use mr_api::LocalRunner;

    use super::*;

    type Vectors = BTreeMap<(String, u64), Vec<f64>>;

    fn learned(
        ratings: &str,
        options: &[&str],
        runner: LocalRunner,
    ) -> Result<(Vectors, Vec<f64>)> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("in"), ratings).unwrap();
        let places = [path("in"), path("out")];
        let all = options.iter().copied().chain(places.iter().map(String::as_str));
        drive(&mut Args::from_words(all)?, &Cluster::local(runner.reducers(2)))?;
        let text = |name: &str| std::fs::read_to_string(path("out/") + name).unwrap();
        let mut vectors = Vectors::new();
        for line in (text("part-r-00000") + &text("part-r-00001")).lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let vector = fields[2].split(' ').map(|x| x.parse().unwrap()).collect();
            vectors.insert((fields[0].to_owned(), fields[1].parse().unwrap()), vector);
        }
        let errors = text("errors-r-00000");
        let last = |line: &str| line.rsplit('\t').next().unwrap().parse().unwrap();
        Ok((vectors, errors.lines().map(last).collect()))
    }

    /// Seven of ten ratings of 40 users and 30 items, products of vectors of two numbers.
    fn ratings() -> Vec<(u64, u64, f64)> {
        let vector = |seed: u64, n: u64| [chance(seed, n) + 0.5, chance(seed + 1, n) * 2.0 - 1.0];
        let all = (0..40).flat_map(|user| (0..30).map(move |item| (user, item)));
        all.filter(|(user, item)| (user * 7 + item * 3) % 10 < 7)
            .map(|(user, item)| (user, item, product(&vector(1, user), &vector(5, item))))
            .collect()
    }

    fn lines(ratings: &[(u64, u64, f64)]) -> String {
        ratings.iter().map(|(user, item, rating)| format!("{user} {item}\t{rating}\n")).collect()
    }

    #[test]
    fn ratings_that_are_products_are_found_again_also_those_left_out() {
        let mut kept = ratings();
        let left_out: Vec<_> = kept.iter().copied().step_by(9).collect();
        kept.retain(|rating| !left_out.contains(rating));
        let options = ["--rank", "2", "--regularisation", "1e-9", "--rounds", "30"];
        let (vectors, errors) = learned(&lines(&kept), &options, LocalRunner::new()).unwrap();
        assert_eq!((vectors.len(), errors.len()), (70, 60));
        assert!(errors[59] < 1e-4 && errors.is_sorted_by(|a, b| *b <= a + 1e-7), "{errors:?}");
        for (user, item, rating) in left_out {
            let found = product(&vectors[&("user".into(), user)], &vectors[&("item".into(), item)]);
            assert!((found - rating).abs() < 1e-2, "{user}, {item}: {found} and {rating}");
        }
    }

    #[test]
    fn the_order_of_messages_does_not_matter() {
        let options = ["--rank", "3", "--rounds", "3"];
        let all = lines(&ratings());
        let backwards: String = all.lines().rev().map(|line| format!("{line}\n")).collect();
        let (one, _) = learned(&all, &options, LocalRunner::new()).unwrap();
        let small = LocalRunner::new().split_bytes(400).tiny_memory();
        assert!(learned(&backwards, &options, small).unwrap().0 == one, "to the last bit");
    }

    #[test]
    fn mistakes_are_named() {
        for (line, options, reason) in [
            ("1 2\n", &["--rank", "2"][..], "no `user item rating`"),
            ("1 2 x\n", &[], "`x` is no finite number"),
            ("1 -2 3\n", &[], "`-2` is no whole number"),
            ("1 2 3\n", &["--regularisation", "0"], "too few ratings"),
            ("1 2 3\n", &["--rank", "0"], "--rank is 1 to 50"),
        ] {
            let error = learned(line, options, LocalRunner::new()).unwrap_err();
            assert!(format!("{error:?}").contains(reason), "{error:?}");
        }
    }
}
