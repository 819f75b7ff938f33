//! PageRank: an iteration is a job, and all iterations are one plan.
//!
//! ```text
//! cargo run --release --example pagerank -- --local --iterations 10 graph.adj OUT
//! ```
//!
//! Reads lines `node target target ...` (numbers, separated by spaces) and writes `node<TAB>rank`. Each node begins with rank 1. In each
//! iteration it gives its rank to its targets in equal shares. Its new rank is 0.15 plus 0.85 times the sum of the shares it receives.
//!
//! Between iterations the graph is stored in SequenceFiles: node, and its rank and targets as bytes. [`Gather`] is the combiner. For each
//! node it joins the sum of the shares with the node's targets, which travel as one more value of the node.

use std::process::ExitCode;

use mr_api::formats::Format;
use mr_api::job::{CompleteJob, previous_as};
use mr_api::sequence::SequencePairs;
use mr_api::{
    Args, Auto, Emit, Fold, Job, Line, Lines, Mapper, Output, Plan, Reducer, Result, Sink, Values,
    intermediate, reduce_fn, text, text_out,
};

const HELP: &str = "\
Computes the PageRank of a graph's nodes.

Usage: pagerank [options] IN... OUT

  IN...                  lines `node target target ...`, one line per node
  OUT                    a new directory: lines `node<TAB>rank`
  --iterations N         how often ranks are given on (default 10)

Example:
  pagerank --iterations 10 /graph /ranks
";

/// Default number of iterations: ranks change little after these.
const ITERATIONS_DEFAULT: u32 = 10;
/// Share of a rank that is passed on.
const DAMPING: f64 = 0.85;
/// Bytes of a rank and of a target.
const RANK_BYTES: usize = 8;
const TARGET_BYTES: usize = 4;

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

/// Describes the jobs.
fn plan(args: &mut Args) -> Result<Plan> {
    let iterations = args.value("--iterations")?.unwrap_or(ITERATIONS_DEFAULT).max(1);
    let (inputs, output) = args.inputs_and_output()?;
    let mut plan = Plan::new();
    for number in 1..=iterations {
        let job = Job::new(format!("pagerank {number} of {iterations}"));
        let last = (number == iterations).then_some(output.as_str());
        let job = if number == 1 {
            reduce(job.input(text(inputs.iter().cloned())).map(Begin::default()), last)
        } else {
            reduce(job.input(previous_as(SequencePairs::new())).map(Give), last)
        };
        plan.add(job);
    }
    Ok(plan)
}

/// The part of an iteration that is common to the first and the others.
fn reduce<M: Mapper<Key = u32, Value = Given>>(
    job: Job<mr_api::job::Mapped<M>>,
    last: Option<&str>,
) -> CompleteJob {
    let job = job.combine(Gather);
    match last {
        Some(path) => {
            let ranks = reduce_fn::<u32, Given, _>(|node, values, out| {
                out.write(node, gather(values, |_| ())?)
            });
            job.reduce(ranks).reducers(Auto).output(text_out(path))
        }
        // It can be made again in seconds if a disk fails, so one copy is enough.
        None => job
            .reduce(WriteGraph::default())
            .reducers(Auto)
            .output(intermediate().sequence::<i32, Vec<u8>>().replication(1)),
    }
}

/// A value that a node receives: a share of a rank; from itself, its targets.
type Given = (f64, Vec<u8>);
/// A node in a SequenceFile: its number, and rank and targets as bytes.
type Nodes = SequencePairs<i32, Vec<u8>>;

/// Gives shares of a node's rank to its targets, and the targets to itself.
fn give<S: Sink>(
    node: u32,
    rank: f64,
    targets: &[u8],
    out: &mut Emit<u32, Given, S>,
) -> Result<()> {
    let share = rank / (targets.len() / TARGET_BYTES).max(1) as f64;
    for target in targets.as_chunks::<TARGET_BYTES>().0 {
        out.emit(u32::from_be_bytes(*target), (share, &b""[..]))?;
    }
    out.emit(node, (0.0, targets))
}

/// The first iteration reads text.
#[derive(Clone, Default)]
struct Begin {
    targets: Vec<u8>,
}

impl Mapper for Begin {
    type In = Lines;
    type Key = u32;
    type Value = Given;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<u32, Given, S>) -> Result<()> {
        let mut words = line.words();
        let Some(node) = words.next() else { return Ok(()) };
        self.targets.clear();
        for word in words {
            self.targets.extend_from_slice(&number(word)?.to_be_bytes());
        }
        give(number(node)?, 1.0, &self.targets, out)
    }
}

fn number(word: &[u8]) -> Result<u32> {
    Ok(std::str::from_utf8(word)?.parse()?)
}

/// The others read the output of the iteration before.
#[derive(Clone)]
struct Give;

impl Mapper for Give {
    type In = Nodes;
    type Key = u32;
    type Value = Given;

    fn map<S: Sink>(
        &mut self,
        (node, bytes): <Nodes as Format>::Record<'_>,
        out: &mut Emit<u32, Given, S>,
    ) -> Result<()> {
        let (rank, targets) = bytes.split_first_chunk::<RANK_BYTES>().ok_or("a node has a rank")?;
        give(node.cast_unsigned(), f64::from_be_bytes(*rank), targets, out)
    }
}

/// Adds shares up and joins lists of targets.
#[derive(Clone)]
struct Gather;

impl Fold<Given> for Gather {
    type Acc = Given;

    #[inline]
    fn lift(&self, (share, targets): (f64, &[u8])) -> Given {
        (share, targets.to_vec())
    }

    #[inline]
    fn merge(&self, into: &mut Given, other: Given) {
        into.0 += other.0;
        into.1.extend_from_slice(&other.1);
    }
}

/// The new rank of a node, from all values it received; passes its targets to `keep`.
fn gather(values: &mut Values<'_, u32, Given>, mut keep: impl FnMut(&[u8])) -> Result<f64> {
    let mut sum = 0.0;
    while let Some((share, targets)) = values.next_value()? {
        sum += share;
        keep(targets);
    }
    Ok(1.0 - DAMPING + DAMPING * sum)
}

/// Writes the graph with its new ranks.
#[derive(Clone, Default)]
struct WriteGraph {
    node: Vec<u8>,
}

impl Reducer for WriteGraph {
    type Key = u32;
    type Value = Given;

    fn reduce(
        &mut self,
        node: u32,
        values: &mut Values<'_, u32, Given>,
        out: &mut Output,
    ) -> Result<()> {
        self.node.clear();
        self.node.extend_from_slice(&[0; RANK_BYTES]);
        let rank = gather(values, |targets| self.node.extend_from_slice(targets))?;
        self.node[..RANK_BYTES].copy_from_slice(&rank.to_be_bytes());
        out.append(node.cast_signed(), self.node.as_slice())
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

    /// The ranks that the jobs compute from `lines`.
    fn ranks(lines: &str, iterations: u32, split_bytes: u64) -> BTreeMap<u32, f64> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        std::fs::write(path("in"), lines).unwrap();
        let words = ["--iterations", &iterations.to_string(), &path("in"), &path("out")];
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
    fn ranks_do_not_depend_on_the_splits() {
        // Several nodes have two lines, which small splits separate.
        let lines = "1 2 3\n2 1\n3 2\n1 4\n4 1 3\n";
        assert_same(&ranks(lines, 3, 1), &ranks(lines, 3, 1000));
    }
}
