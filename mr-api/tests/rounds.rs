//! Jobs in rounds, in this process: the same output whatever the splits, the memory and the number of tasks; early ends; failures.

use std::collections::BTreeMap;
use std::fs;

use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{Emit, Job, LocalRunner, Output, Plan, Result, Sink, text, text_out};
use proptest::prelude::*;

/// Distances from node 0 along directed edges, each of length one.
#[derive(Clone, Default)]
struct Distances {
    /// What the functions do wrong, if anything.
    fault: Option<Fault>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Panics,
    TellsTooMuch,
    JoinsNothing,
}

/// Not reached.
const FAR: u32 = u32::MAX;

impl Rounds for Distances {
    type Key = u32;
    type Fixed = Vec<u8>;
    type State = u32;
    type Message = u32;
    type Summary = (u64, Vec<u8>);

    fn join(&self, into: &mut Vec<u8>, other: Vec<u8>) -> Result<()> {
        if self.fault == Some(Fault::JoinsNothing) {
            return Err("no joining".into());
        }
        into.extend_from_slice(&other);
        Ok(())
    }

    fn begin(
        &mut self,
        node: u32,
        targets: Option<&[u8]>,
        round: &mut Round<'_, Self::Summary>,
    ) -> Result<u32> {
        assert_eq!(targets.is_some(), round.number() == 0, "only messages make nodes known later");
        Ok(if node == 0 { 0 } else { FAR })
    }

    fn update(
        &mut self,
        node: Entry<'_, Self>,
        message: Option<u32>,
        round: &mut Round<'_, Self::Summary>,
    ) -> Result<u32> {
        assert!(self.fault != Some(Fault::Panics) || node.key != 3, "node three");
        let nearer = message.filter(|distance| *distance < node.state);
        round.summary().0 += u64::from(nearer.is_some());
        if self.fault == Some(Fault::TellsTooMuch) {
            round.summary().1.resize(2 << 20, 7);
        }
        Ok(nearer.unwrap_or(node.state))
    }

    fn send<S: Sink>(&mut self, node: Entry<'_, Self>, out: &mut Emit<u32, u32, S>) -> Result<()> {
        if node.state == FAR {
            return Ok(());
        }
        let targets = node.fixed.unwrap_or_default().as_chunks::<4>().0;
        targets.iter().try_for_each(|target| out.emit(u32::from_be_bytes(*target), node.state + 1))
    }

    fn combine(&self, into: &mut u32, other: u32) {
        *into = (*into).min(other);
    }

    fn add(&self, into: &mut Self::Summary, other: Self::Summary) {
        into.0 += other.0;
    }

    fn is_done(&self, round: u32, (nearer, _): &Self::Summary) -> bool {
        round > 0 && *nearer == 0
    }

    fn write(&mut self, node: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        if node.state == FAR { Ok(()) } else { out.write(node.key, node.state) }
    }

    fn finish(&mut self, round: &mut Round<'_, Self::Summary>, out: &mut Output) -> Result<()> {
        out.write_to("rounds", (), round.number())
    }
}

fn plan(rounds: Distances, last: u32, input: &str, output: &str) -> Plan {
    Job::new("distances")
        .input(text([input]))
        .map_fn::<u32, Vec<u8>, _>(|line, out| {
            let mut words = line
                .words()
                .map(|word| std::str::from_utf8(word)?.parse::<u32>().map_err(Into::into));
            let node = words.next().ok_or("an empty line")??;
            let targets: Result<Vec<u32>> = words.collect();
            let targets: Vec<u8> = targets?.into_iter().flat_map(u32::to_be_bytes).collect();
            out.emit(node, targets)
        })
        .rounds(rounds, last)
        .output(text_out(output))
        .into()
}

/// The distances that the job finds, and the number of the last round.
fn run(
    lines: &str,
    runner: &LocalRunner,
    (rounds, last): (Distances, u32),
) -> Result<(BTreeMap<u32, u32>, u32)> {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("in"), lines).unwrap();
    runner.run(plan(rounds, last, &path("in"), &path("out")))?;
    let (mut distances, mut ended) = (BTreeMap::new(), Vec::new());
    for entry in fs::read_dir(path("out")).unwrap() {
        let entry = entry.unwrap();
        let (name, content) =
            (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
        if name.starts_with("rounds") {
            ended.push(content.trim().parse().unwrap());
        } else {
            let pairs = content.lines().map(|line| line.split_once('\t').unwrap());
            distances
                .extend(pairs.map(|(node, far)| {
                    (node.parse::<u32>().unwrap(), far.parse::<u32>().unwrap())
                }));
        }
    }
    ended.dedup();
    assert_eq!(ended.len(), 1, "all tasks ended in one round");
    Ok((distances, ended[0]))
}

/// The same by breadth-first search.
fn search(edges: &[(u32, u32)]) -> BTreeMap<u32, u32> {
    let (mut found, mut next) = (BTreeMap::from([(0, 0)]), vec![0]);
    while let Some(node) = next.first().copied() {
        next.remove(0);
        for (_, target) in edges.iter().filter(|(from, _)| *from == node) {
            if !found.contains_key(target) {
                found.insert(*target, found[&node] + 1);
                next.push(*target);
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn distances_are_those_of_a_search(
        mut edges in prop::collection::vec((0u32..20, 0u32..25), 1..60),
        reducers in 1u32..5,
        split_bytes in 1u64..60,
        tiny: bool,
    ) {
        edges.push((0, 0));
        let lines: String = edges.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
        let runner = LocalRunner::new().reducers(reducers).split_bytes(split_bytes);
        let runner = if tiny { runner.tiny_memory() } else { runner };
        let (found, rounds) = run(&lines, &runner, (Distances::default(), 100)).unwrap();
        let want = search(&edges);
        prop_assert_eq!(rounds, want.values().max().unwrap() + 2, "one to see that nothing changes, one to write");
        prop_assert_eq!(found, want);
    }
}

/// A chain of five nodes; the first has two lines.
const CHAIN: &str = "0 1\n1 2\n2 3\n3 4\n0 0\n";

#[test]
fn the_last_round_writes_whatever_is_left_to_do() {
    let runner = LocalRunner::new().reducers(2);
    let (found, rounds) = run(CHAIN, &runner, (Distances::default(), 2)).unwrap();
    assert_eq!((found, rounds), (BTreeMap::from([(0, 0), (1, 1), (2, 2)]), 2));
}

#[test]
fn what_goes_wrong_is_named() {
    let runner = LocalRunner::new().reducers(2);
    let fault = |fault| Distances { fault: Some(fault) };
    let too_few = LocalRunner::new().reducers(0);
    let too_many = LocalRunner::new().reducers(5000);
    for (runner, rounds, last, reason) in [
        (
            &runner,
            Distances::default(),
            0,
            "the number of rounds must be between 1 and 10000, not 0",
        ),
        (&runner, Distances::default(), 10_001, "between 1 and 10000, not 10001"),
        (&too_few, Distances::default(), 5, "must have between 1 and 4096 reduce tasks, not 0"),
        (&too_many, Distances::default(), 5, "must have between 1 and 4096 reduce tasks, not 5000"),
        (&runner, fault(Fault::Panics), 5, "node three"),
        (&runner, fault(Fault::TellsTooMuch), 5, "bytes, and may have 1048576"),
        (&runner, fault(Fault::JoinsNothing), 5, "no joining"),
    ] {
        let error = run(CHAIN, runner, (rounds, last)).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}
