//! PageRank: a job in rounds. The graph stays where it is; only shares of ranks move.
//!
//! ```text
//! cargo run --release --example pagerank -- --local --iterations 10 graph.adj OUT
//! ```
//!
//! Reads lines `node target target ...` (numbers, separated by spaces) and writes `node<TAB>rank`. Each node begins with rank 1. In each
//! iteration it gives its rank to its targets in equal shares. Its new rank is 0.15 plus 0.85 times the sum of the shares it receives.
//!
//! What is fixed of a node are its targets, its state is its rank, and its messages are shares. The summary of a round has the sum of all
//! changes, which tells when to stop, and the ranks of nodes without targets, which `--spread` gives to all nodes.

use std::process::ExitCode;

use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{
    Args, Auto, Emit, Job, Line, Lines, Mapper, Output, Plan, Result, Sink, parse, text, text_out,
};

const HELP: &str = "\
Computes the PageRank of a graph's nodes.

Usage: pagerank [options] IN... OUT

  IN...                  lines `node target target ...`, one line per node
  OUT                    a new directory: lines `node<TAB>rank`
  --iterations N         how often ranks are given on, at most (default 10)
  --tolerance T          stops when all ranks together change by less than T
  --spread               nodes without targets give their rank to all nodes

Example:
  pagerank --iterations 100 --tolerance 0.001 /graph /ranks
";

/// Default number of iterations: ranks change little after these.
const ITERATIONS_DEFAULT: u32 = 10;
/// Share of a rank that is passed on.
const DAMPING: f64 = 0.85;
/// Bytes of a target.
const TARGET_BYTES: usize = 4;

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

/// Describes the job.
fn plan(args: &mut Args) -> Result<Plan> {
    let iterations = args.value("--iterations")?.unwrap_or(ITERATIONS_DEFAULT).max(1);
    let tolerance = args.value("--tolerance")?.unwrap_or(0.0);
    let ranking = Ranking { tolerance, spreads: args.flag("--spread"), spread: 0.0 };
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("pagerank").input(text(inputs)).map(ReadGraph::default());
    let job = job.depends_on((tolerance, ranking.spreads)).rounds(ranking, iterations);
    Ok(job.reducers(Auto).output(text_out(output)).into())
}

/// Reads nodes and their targets.
#[derive(Clone, Default)]
struct ReadGraph {
    targets: Vec<u8>,
}

impl Mapper for ReadGraph {
    type In = Lines;
    type Key = u32;
    type Value = Vec<u8>;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<u32, Vec<u8>, S>) -> Result<()> {
        let mut words = line.words();
        let Some(node) = words.next() else { return Ok(()) };
        self.targets.clear();
        for word in words {
            self.targets.extend_from_slice(&number(word, line)?.to_be_bytes());
        }
        out.emit(number(node, line)?, self.targets.as_slice())
    }
}

fn number(word: &[u8], line: Line<'_>) -> Result<u32> {
    Ok(parse(word, "number of a node", line.bytes)?)
}

/// Gives ranks on.
#[derive(Clone)]
struct Ranking {
    /// Enough: all ranks together change by less.
    tolerance: f64,
    /// Nodes without targets give their rank to all.
    spreads: bool,
    /// What each node gets of them in this round.
    spread: f64,
}

/// What a round tells the next: the sum of all changes, the ranks of nodes without targets, the number of nodes.
type Summary = (f64, f64, u64);

impl Ranking {
    fn count(targets: Option<&[u8]>, rank: f64, change: f64, summary: &mut Summary) {
        summary.0 += change;
        summary.1 += if targets.is_none_or(<[u8]>::is_empty) { rank } else { 0.0 };
        summary.2 += 1;
    }
}

impl Rounds for Ranking {
    type Key = u32;
    type Fixed = Vec<u8>;
    type State = f64;
    type Message = f64;
    type Summary = Summary;

    fn setup(&mut self, round: &mut Round<'_, Summary>) -> Result<()> {
        let given = round.total().map(|(_, given, nodes)| given / (*nodes).max(1) as f64);
        self.spread = given.filter(|_| self.spreads).unwrap_or(0.0);
        Ok(())
    }

    /// A node may have several lines.
    fn join(&self, into: &mut Vec<u8>, other: Vec<u8>) -> Result<()> {
        into.extend_from_slice(&other);
        Ok(())
    }

    fn begin(
        &mut self,
        _: u32,
        targets: Option<&[u8]>,
        round: &mut Round<'_, Summary>,
    ) -> Result<f64> {
        if round.number() == 0 {
            Ranking::count(targets, 1.0, 1.0, round.summary());
        }
        Ok(1.0)
    }

    fn update(
        &mut self,
        node: Entry<'_, Self>,
        share: Option<f64>,
        round: &mut Round<'_, Summary>,
    ) -> Result<f64> {
        let rank = 1.0 - DAMPING + DAMPING * (share.unwrap_or(0.0) + self.spread);
        Ranking::count(node.fixed, rank, (rank - node.state).abs(), round.summary());
        Ok(rank)
    }

    fn send<S: Sink>(&mut self, node: Entry<'_, Self>, out: &mut Emit<u32, f64, S>) -> Result<()> {
        let targets = node.fixed.unwrap_or_default().as_chunks::<TARGET_BYTES>().0;
        let share = node.state / targets.len() as f64;
        targets.iter().try_for_each(|target| out.emit(u32::from_be_bytes(*target), share))
    }

    fn combine(&self, into: &mut f64, other: f64) {
        *into += other;
    }

    fn add(&self, into: &mut Summary, (change, given, nodes): Summary) {
        *into = (into.0 + change, into.1 + given, into.2 + nodes);
    }

    fn is_done(&self, round: u32, (change, _, _): &Summary) -> bool {
        round > 0 && *change < self.tolerance
    }

    fn measure(&self, round: u32, (change, _, _): &Summary) -> Option<f64> {
        (round > 0).then_some(*change)
    }

    fn write(&mut self, node: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        out.write(node.key, node.state)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;

    use super::*;

    /// A reference implementation in memory.
    fn slow(graph: &[(u32, Vec<u32>)], iterations: u32) -> BTreeMap<u32, f64> {
        let mut ranks: BTreeMap<u32, f64> = graph.iter().map(|(node, _)| (*node, 1.0)).collect();
        for _ in 0..iterations {
            let mut given: BTreeMap<u32, f64> =
                graph.iter().map(|(node, _)| (*node, 0.0)).collect();
            for (node, targets) in graph {
                for target in targets {
                    *given.entry(*target).or_default() += ranks[node] / targets.len() as f64;
                }
            }
            ranks = given.into_iter().map(|(node, sum)| (node, 0.15 + 0.85 * sum)).collect();
        }
        ranks
    }

    /// The ranks that the job computes from `lines`.
    fn ranks(lines: &str, iterations: u32, split_bytes: u64) -> BTreeMap<u32, f64> {
        ranks_with(&["--iterations", &iterations.to_string()], lines, split_bytes)
    }

    /// The same with these options.
    fn ranks_with(options: &[&str], lines: &str, split_bytes: u64) -> BTreeMap<u32, f64> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("in"), lines).unwrap();
        let places = [path("in"), path("out")];
        let words = options.iter().copied().chain(places.iter().map(String::as_str));
        let runner = LocalRunner::new().reducers(2).split_bytes(split_bytes);
        runner.run(plan(&mut Args::from_words(words).unwrap()).unwrap()).unwrap();
        let mut ranks = BTreeMap::new();
        for part in ["out/part-r-00000", "out/part-r-00001"] {
            for line in std::fs::read_to_string(path(part)).unwrap().lines() {
                let (node, rank) = line.split_once('\t').unwrap();
                ranks.insert(node.parse::<u32>().unwrap(), rank.parse::<f64>().unwrap());
            }
        }
        ranks
    }

    fn assert_same(ranks: &BTreeMap<u32, f64>, want: &BTreeMap<u32, f64>) {
        assert_eq!(ranks.len(), want.len());
        for (node, rank) in want {
            assert!((ranks[node] - rank).abs() < 1e-9, "{node}: {} and {rank}", ranks[node]);
        }
    }

    #[test]
    fn ranks_are_those_of_a_small_program() {
        let graph: Vec<(u32, Vec<u32>)> = (0..200u32)
            .map(|node| (node, (0..node % 7).map(|i| (node * 31 + i * 17) % 200).collect()))
            .collect();
        let lines = graph.iter().map(|(node, targets)| {
            let targets: String = targets.iter().map(|target| format!(" {target}")).collect();
            format!("{node}{targets}\n")
        });
        assert_same(&ranks(&lines.collect::<String>(), 5, 500), &slow(&graph, 5));
    }

    #[test]
    fn ranks_that_change_no_more_end_the_job_early() {
        let lines = "1 2\n2 3\n3 1 2\n";
        let exact = ranks_with(&["--iterations", "300"], lines, 1000);
        let enough = ranks_with(&["--iterations", "300", "--tolerance", "1e-6"], lines, 1000);
        assert_ne!(exact, enough, "it stopped before the last iteration");
        for (node, rank) in &exact {
            assert!((rank - enough[node]).abs() < 1e-5, "{node}: {rank} and {}", enough[node]);
        }
    }

    #[test]
    fn no_rank_is_lost_where_nodes_without_targets_give_theirs_to_all() {
        let lines = "1 2 3\n2\n3 1\n4\n";
        let sum = |options: &[&str]| ranks_with(options, lines, 1000).values().sum::<f64>();
        assert!((sum(&["--iterations", "20", "--spread"]) - 4.0).abs() < 1e-9);
        assert!(sum(&["--iterations", "20"]) < 3.0);
    }

    #[test]
    fn ranks_do_not_depend_on_the_splits() {
        // Several nodes have two lines, which small splits separate.
        let lines = "1 2 3\n2 1\n3 2\n1 4\n4 1 3\n";
        assert_same(&ranks(lines, 3, 1), &ranks(lines, 3, 1000));
    }
}
