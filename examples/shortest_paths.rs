//! Finds the shortest paths from a node to all others, in rounds: each node whose distance became shorter tells its neighbours.
//!
//! ```text
//! cargo run --release --example shortest_paths -- --local --from 1 roads.txt OUT
//! ```
//!
//! Reads `node<TAB>node<TAB>length`, a way in one direction, and writes `node<TAB>distance` for every node that can be reached.
//!
//! In a round a node meets, sorted, what there is to say about it: the distance that it knows, the distances that others offer, and its
//! ways. The key is `(node, (kind, distance))`, grouped by its first element, so these come in this order, and the best offer comes first.
//! If it is better than the known distance, the node keeps it, counts that, and offers each neighbour its own distance plus the length of
//! the way. The program ends when no node got closer.
//!
//! This is the method of Bellman and Ford: as many rounds as the path with the most ways has, among the shortest.

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

use mr_api::formats::Rows;
use mr_api::job::{CompleteJob, rows};
use mr_api::{
    Args, Auto, Cluster, Emit, Job, Line, Lines, Mapper, Min, Output, Program, Reducer, Result,
    Sink, Values, counters, intermediate, map_fn, parse, text, text_out, usage_error,
};
use serde::{Deserialize, Serialize};

const HELP: &str = "\
Finds the shortest paths from a node to all others.

Usage: shortest_paths [options] --from NODE IN... OUT

  IN...                  lines `node<TAB>node<TAB>length`: numbers, no length below 0
  OUT                    a new directory: lines `node<TAB>distance`
  --from NODE            where the paths begin

Example:
  shortest_paths --from 1 /roads /distances
";

counters! {
    enum Nodes {
        Closer,
    }
}

fn main() -> ExitCode {
    Program::new(HELP).step(round).step(finish).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let Some(from) = args.value("--from")? else { return usage_error("--from NODE is needed") };
    let (ways, output) = args.inputs_and_output()?;
    cluster.check_new(&output)?;
    let mut last = cluster.run(round, &Round { ways: ways.clone(), from, before: None })?;
    while last.counted(Nodes::Closer) > 0 {
        let before = Some(last.path().to_owned());
        last = cluster.run(round, &Round { ways: ways.clone(), from, before })?;
    }
    cluster.run(finish, &(last.path().to_owned(), output))?;
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Round {
    ways: Vec<String>,
    from: u64,
    /// The output of the round before.
    before: Option<String>,
}

/// What is said about a node, in the order in which its reduce hears it.
const KNOWN: u8 = 0;
const OFFER: u8 = 1;
const WAY: u8 = 2;

/// A node, and what is said about it.
type Key = (u64, (u8, f64));

fn round(Round { ways, from, before }: Round) -> Result<CompleteJob> {
    // In the first round nothing was said, but for an offer to the node at which all begins.
    let offers = u64::from(before.is_none());
    let first = map_fn::<Rows, Key, u64, _>(move |_, out| out.emit((from, (OFFER, 0.0)), 0));
    let said = map_fn::<Lines, Key, u64, _>(|line, out| {
        let (node, kind, distance) = fields::<u64, u8, f64>(line)?;
        out.emit((node, (kind, distance)), 0)
    });
    Ok(Job::new("shortest-paths")
        .input(text(ways))
        .map(Ways)
        .also(rows(offers, 1), first)
        .also(text(before), said)
        .group_by_first()
        .reduce(Closer)
        .reducers(Auto)
        .output(intermediate()))
}

/// Emits each way under the node where it begins, with the node where it ends.
#[derive(Clone)]
struct Ways;

impl Mapper for Ways {
    type In = Lines;
    type Key = Key;
    type Value = u64;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Key, u64, S>) -> Result<()> {
        let (from, to, length) = fields::<u64, u64, f64>(line)?;
        if length >= 0.0 {
            out.emit((from, (WAY, length)), to)
        } else {
            Err(format!("the length is below 0 in the record `{}`", line.to_str_lossy()).into())
        }
    }
}

/// Keeps the least distance of a node, and offers more to its neighbours if it became less.
#[derive(Clone)]
struct Closer;

impl Reducer for Closer {
    type Key = Key;
    type Value = u64;

    fn reduce(
        &mut self,
        (node, _): Key,
        said: &mut Values<'_, Key, u64>,
        out: &mut Output,
    ) -> Result<()> {
        let (mut least, mut is_closer) = (f64::INFINITY, false);
        while let Some(to) = said.next_value()? {
            let (_, (kind, number)) = said.current_key()?;
            match kind {
                OFFER if number < least => (least, is_closer) = (number, true),
                KNOWN if number < least => least = number,
                WAY if is_closer => out.write(to, (OFFER, least + number))?,
                _ => {}
            }
        }
        if is_closer {
            out.context().count(Nodes::Closer);
        }
        if least.is_finite() { out.write(node, (KNOWN, least)) } else { Ok(()) }
    }
}

/// Leaves the distances, without what was said about them.
fn finish((distances, output): (String, String)) -> Result<CompleteJob> {
    Ok(Job::new("distances")
        .input(text([distances]))
        .map_fn::<u64, f64, _>(|line, out| {
            let (node, _, distance) = fields::<u64, u8, f64>(line)?;
            out.emit(node, distance)
        })
        .reduce(Min)
        .reducers(Auto)
        .output(text_out(output)))
}

/// The three fields of a line.
fn fields<A: Field, B: Field, C: Field>(line: Line<'_>) -> Result<(A, B, C)> {
    let text = line.to_str_lossy();
    let mut fields = text.split('\t');
    match (fields.next(), fields.next(), fields.next(), fields.next()) {
        (Some(a), Some(b), Some(c), None) => {
            let line = line.bytes;
            Ok((parse(a, A::NAME, line)?, parse(b, B::NAME, line)?, parse(c, C::NAME, line)?))
        }
        _ => Err(format!("`{text}` has no three fields").into()),
    }
}

/// A number in a line.
trait Field: FromStr<Err: Display> {
    /// What it is.
    const NAME: &str;
}

impl Field for u8 {
    const NAME: &str = "kind of line";
}

impl Field for u64 {
    const NAME: &str = "number of a node";
}

impl Field for f64 {
    const NAME: &str = "length";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;

    use super::*;

    type Way = (u64, u64, f64);

    fn distances(ways: &[Way], from: u64) -> BTreeMap<u64, f64> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines: String = ways.iter().map(|(a, b, l)| format!("{a}\t{b}\t{l}\n")).collect();
        std::fs::write(path("in"), lines).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(2).split_bytes(300));
        let words = ["--from", &from.to_string(), &path("in"), &path("out")];
        drive(&mut Args::from_words(words).unwrap(), &cluster).unwrap();
        let parts = ["out/part-r-00000", "out/part-r-00001"];
        let text: String = parts.map(|part| std::fs::read_to_string(path(part)).unwrap()).concat();
        let pairs = text.lines().map(|line| line.split_once('\t').unwrap());
        pairs.map(|(node, far)| (node.parse().unwrap(), far.parse().unwrap())).collect()
    }

    /// All distances of nodes below `count`, by Floyd and Warshall.
    fn slow(ways: &[Way], from: u64, count: usize) -> BTreeMap<u64, f64> {
        let mut far = vec![vec![f64::INFINITY; count]; count];
        for (a, b, length) in ways {
            let entry = &mut far[*a as usize][*b as usize];
            *entry = entry.min(*length);
        }
        for by in 0..count {
            for a in 0..count {
                for b in 0..count {
                    far[a][b] = far[a][b].min(far[a][by] + far[by][b]);
                }
            }
        }
        far[from as usize][from as usize] = 0.0;
        let reached = (0..count).map(|to| (to as u64, far[from as usize][to]));
        reached.filter(|(_, far)| far.is_finite()).collect()
    }

    #[test]
    fn distances_are_those_of_floyd_and_warshall() {
        // Lengths are sums of powers of two, so that sums are exact.
        let ways: Vec<Way> =
            (0..120u64).map(|i| (i * 7 % 40, i * i * 3 % 40, (i * 13 % 32) as f64 / 8.0)).collect();
        for from in [0, 1, 39] {
            assert_eq!(distances(&ways, from), slow(&ways, from, 40), "from {from}");
        }
        assert_eq!(distances(&[(1, 2, 0.5), (2, 1, 0.0)], 7), [(7, 0.0)].into());
    }

    #[test]
    fn lengths_below_zero_are_refused() {
        let line = Line { offset: 0, bytes: b"1\t2\t-1" };
        let run = mr_api::testing::MapDriver::new(Ways, Lines).input(line.bytes).run();
        assert!(run.unwrap_err().to_string().contains("below 0"));
    }
}
