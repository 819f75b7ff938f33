//! Counts triangles: three nodes, each linked to the others. A job in four rounds, with a trick that keeps hubs small.
//!
//! ```text
//! cargo run --release --example triangles -- --local edges.txt OUT
//! ```
//!
//! Reads edges `node node` (numbers) in any direction, and writes `node<TAB>triangles` for each node that is in one; prints how many triangles
//! there are.
//!
//! Two neighbours of a node may be linked: to find out, the one asks the other. A hub with a million neighbours has half a trillion such
//! pairs. The trick: nodes are ordered by degree, and each edge belongs to the *lower* of its nodes. Hubs then own few edges: no node owns more
//! than the root of twice the number of all edges (Suri and Vassilvitskii, *Counting Triangles and the Curse of the Last Reducer*, 2011).
//!
//! ```text
//! round 0   a node tells its degree to its neighbours
//! round 1   it knows which neighbours are higher, and asks each of them about the even higher ones: are you linked?
//! round 2   it finds those that it owns an edge to: triangles; tells the other two corners
//! round 3   each adds up its triangles
//! ```
//!
//! Each triangle is found once, by its middle corner. The lists of neighbours are fixed; what moves are questions.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::map::enough;
use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{
    Args, Auto, Cluster, Emit, Job, Lines, Output, Program, Result, Sink, parse, text, text_out,
};
use serde::{Deserialize, Serialize};

const HELP: &str = "\
Counts the triangles of a graph.

Usage: triangles [options] IN... OUT

  IN...                  lines `node node`: an edge, in any direction, also twice
  OUT                    a new directory: lines `node<TAB>triangles`

Example:
  triangles --local edges.txt triangles
";

/// In front of the number of all.
const ALL: &str = "all\t";

fn main() -> ExitCode {
    Program::new(HELP).step(count).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let done = cluster.run(count, &args.inputs_and_output()?)?;
    done.for_each(&Lines, |line| match line.bytes.strip_prefix(ALL.as_bytes()) {
        Some(count) => {
            Ok(writeln!(mr_api::stdout(), "{} triangles", String::from_utf8_lossy(count))?)
        }
        None => enough(),
    })
}

fn count((inputs, output): (Vec<String>, String)) -> Result<CompleteJob> {
    let job = Job::new("triangles").input(text(inputs)).map_fn::<u64, Vec<u8>, _>(|line, out| {
        let text = line.to_str_lossy();
        let nodes: Vec<&str> = text.split_whitespace().collect();
        let &[a, b] = &nodes[..] else {
            return Err(format!("`{text}` is no pair of nodes").into());
        };
        let number = |node: &str| parse::<u64>(node, "number of a node", line.bytes);
        let (a, b) = (number(a)?, number(b)?);
        if a == b {
            return Ok(());
        }
        out.emit(a, b.to_be_bytes())?;
        out.emit(b, a.to_be_bytes())
    });
    Ok(job.rounds(Triangles::default(), 3).reducers(Auto).output(text_out(output)))
}

/// What nodes tell each other.
#[derive(Clone, Serialize, Deserialize)]
enum Message {
    /// Neighbours and their degrees.
    Degrees(Vec<(u64, u64)>),
    /// Who asks, and about whom.
    Questions(Vec<(u64, u64)>),
    /// How many were found.
    Triangles(u64),
}

/// Counts.
#[derive(Clone, Default)]
struct Triangles {
    round: u32,
}

/// The neighbours of a node, each once.
fn neighbours(fixed: Option<&[u8]>) -> Vec<u64> {
    let numbers = fixed.unwrap_or_default().as_chunks().0.iter();
    let mut nodes: Vec<u64> = numbers.map(|node| u64::from_be_bytes(*node)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

impl Rounds for Triangles {
    type Key = u64;
    type Fixed = Vec<u8>;
    /// After round 1, the higher neighbours in their order; after round 2, corners with the triangles that were found; after round 3, only
    /// the node itself.
    type State = Serde<Vec<(u64, u64)>>;
    type Message = Serde<Message>;
    type Summary = u64;

    fn setup(&mut self, round: &mut Round<'_, u64>) -> Result<()> {
        self.round = round.number();
        Ok(())
    }

    fn join(&self, into: &mut Vec<u8>, other: Vec<u8>) -> Result<()> {
        into.extend_from_slice(&other);
        Ok(())
    }

    fn begin(&mut self, _: u64, _: Option<&[u8]>, _: &mut Round<'_, u64>) -> Result<Self::State> {
        Ok(Serde(Vec::new()))
    }

    fn update(
        &mut self,
        node: Entry<'_, Self>,
        message: Option<Serde<Message>>,
        round: &mut Round<'_, u64>,
    ) -> Result<Self::State> {
        let Serde(mut before) = node.state;
        Ok(Serde(match message {
            Some(Serde(Message::Degrees(mut degrees))) => {
                let own = (degrees.len() as u64, node.key);
                degrees.retain(|(other, degree)| (*degree, *other) > own);
                degrees.sort_unstable_by_key(|(other, degree)| (*degree, *other));
                degrees
            }
            Some(Serde(Message::Questions(questions))) => {
                before.sort_unstable();
                let owns =
                    |other: &u64| before.binary_search_by_key(other, |(node, _)| *node).is_ok();
                let mut found = BTreeMap::new();
                for (lowest, highest) in questions.iter().filter(|(_, highest)| owns(highest)) {
                    *round.summary() += 1;
                    for corner in [*lowest, *highest, node.key] {
                        *found.entry(corner).or_default() += 1;
                    }
                }
                found.into_iter().collect()
            }
            Some(Serde(Message::Triangles(count))) => vec![(node.key, count)],
            None => Vec::new(),
        }))
    }

    fn send<S: Sink>(
        &mut self,
        node: Entry<'_, Self>,
        out: &mut Emit<u64, Serde<Message>, S>,
    ) -> Result<()> {
        let (key, Serde(state)) = (node.key, node.state);
        match self.round {
            0 => {
                let all = neighbours(node.fixed);
                let own = Serde(Message::Degrees(vec![(key, all.len() as u64)]));
                all.into_iter().try_for_each(|neighbour| out.emit(neighbour, &own))
            }
            1 => state.iter().enumerate().try_for_each(|(at, (asked, _))| {
                let higher = state[at + 1..].iter().map(|(highest, _)| (key, *highest)).collect();
                out.emit(*asked, Serde(Message::Questions(higher)))
            }),
            _ => state
                .into_iter()
                .try_for_each(|(corner, count)| out.emit(corner, Serde(Message::Triangles(count)))),
        }
    }

    fn combine(&self, Serde(into): &mut Serde<Message>, Serde(other): Serde<Message>) {
        match (into, other) {
            (Message::Degrees(all), Message::Degrees(more))
            | (Message::Questions(all), Message::Questions(more)) => all.extend(more),
            (Message::Triangles(sum), Message::Triangles(count)) => *sum += count,
            _ => unreachable!("all messages of a round are of one kind"),
        }
    }

    fn add(&self, into: &mut u64, other: u64) {
        *into += other;
    }

    fn write(&mut self, node: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        node.state.0.iter().try_for_each(|(node, count)| out.write(*node, *count))
    }

    fn finish(&mut self, round: &mut Round<'_, u64>, out: &mut Output) -> Result<()> {
        // In front of the parts, where the driver finds it first.
        let all = round.total().copied().unwrap_or_default();
        if round.partition() == 0 { out.write_to("all", "all", all) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mr_api::LocalRunner;

    use super::*;

    fn counted(edges: &[(u64, u64)]) -> (BTreeMap<u64, u64>, u64) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines: String = edges.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
        std::fs::write(path("in"), lines).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(3).split_bytes(200).tiny_memory());
        drive(&mut Args::from_words([path("in"), path("out")]).unwrap(), &cluster).unwrap();
        let text = |name: &str| std::fs::read_to_string(path("out/") + name).unwrap();
        let mut counts = BTreeMap::new();
        for part in 0..3 {
            for line in text(&format!("part-r-0000{part}")).lines() {
                let (node, count) = line.split_once('\t').unwrap();
                let before = counts.insert(node.parse().unwrap(), count.parse().unwrap());
                assert!(before.is_none(), "node {node} is there twice");
            }
        }
        (counts, text("all-r-00000").trim().strip_prefix(ALL).unwrap().parse().unwrap())
    }

    /// Looks at all triples.
    fn slow(edges: &[(u64, u64)]) -> (BTreeMap<u64, u64>, u64) {
        let edges: BTreeSet<(u64, u64)> =
            edges.iter().filter(|(a, b)| a != b).map(|(a, b)| (*a.min(b), *a.max(b))).collect();
        let (mut counts, mut all) = (BTreeMap::new(), 0);
        for (a, b) in &edges {
            for c in b + 1..300 {
                if edges.contains(&(*a, c)) && edges.contains(&(*b, c)) {
                    all += 1;
                    [*a, *b, c].iter().for_each(|corner| *counts.entry(*corner).or_default() += 1);
                }
            }
        }
        (counts, all)
    }

    #[test]
    fn triangles_are_those_of_looking_at_all_triples() {
        let random: Vec<_> = (0..250u64).map(|i| (i * i * 31 % 41, i * 57 % 41)).collect();
        // A hub that all are linked to, and a ring around it: a wheel.
        let wheel: Vec<_> = (1..50u64).flat_map(|i| [(0, i), (i % 49 + 1, i)]).collect();
        let path = [(1, 2), (2, 3), (3, 3), (3, 2)];
        for edges in [&random[..], &wheel, &path, &[(1, 2), (3, 1), (2, 3)], &[]] {
            assert_eq!(counted(edges), slow(edges));
        }
        assert_eq!(slow(&wheel).1, 49);
    }
}
