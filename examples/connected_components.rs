//! Finds the connected components of a graph that is far larger than memory, in few rounds whatever its shape: alternating stars.
//!
//! ```text
//! cargo run --release --example connected_components -- --local edges.txt OUT
//! ```
//!
//! Reads edges `node node` (numbers) and writes `node<TAB>component`; a component is named by its least node.
//!
//! A node that learns its least neighbour's least neighbour, and so on, needs as many rounds as the longest path has edges. Two kinds of
//! rounds in turn need about the logarithm of that. Both replace edges so that components stay as they are, and become stars: every node
//! linked to the least.
//!
//! - **Large star**: a node links its *larger* neighbours to the least node of its neighbourhood.
//! - **Small star**: a node links its *smaller* neighbours, and itself, to the least of them.
//!
//! When neither changes an edge, the graph is a set of stars. The program counts changes, and so knows when to end.
//!
//! The key is `(node, neighbour)`, grouped by its first element: the least neighbour comes first, and neighbours that are there twice come
//! together. So a node with a million neighbours takes no memory. The last step joins the stars with the input, for nodes that have no
//! neighbour but themselves.
//!
//! The method is of Kiveris and others: *Connected Components in MapReduce and Beyond*, 2014.

use std::process::ExitCode;

use mr_api::job::CompleteJob;
use mr_api::{
    Args, Auto, Cluster, Job, Line, Min, Program, Result, Values, counters, intermediate, map_fn,
    parse, reduce_fn, text, text_out,
};

const HELP: &str = "\
Finds the connected components of a graph.

Usage: connected_components [options] IN... OUT

  IN...                  lines `node node`: an edge, or twice the same node for one without edges
  OUT                    a new directory: lines `node<TAB>component`

Example:
  connected_components /edges /components
";

counters! {
    enum Edges {
        Changed,
    }
}

fn main() -> ExitCode {
    Program::new(HELP).step(large_star).step(small_star).step(label).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let (inputs, output) = args.inputs_and_output()?;
    cluster.check_new(&output)?;
    let mut stars = cluster.run(small_star, &inputs)?;
    loop {
        let large = cluster.run(large_star, &stars.path().to_owned())?;
        stars = cluster.run(small_star, &vec![large.path().to_owned()])?;
        if large.counted(Edges::Changed) + stars.counted(Edges::Changed) == 0 {
            break;
        }
    }
    cluster.run(label, &(inputs, stars.path().to_owned(), output))?;
    Ok(())
}

type Nodes = (u64, u64);

fn edge(line: Line<'_>) -> Result<Nodes> {
    let mut words = line.words();
    let (Some(a), Some(b), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("`{}` is no pair of nodes", line.to_str_lossy()).into());
    };
    let number = |node: &[u8]| parse(node, "number of a node", line.bytes);
    Ok((number(a)?, number(b)?))
}

fn large_star(edges: String) -> Result<CompleteJob> {
    Ok(Job::new("large-star")
        .input(text([edges]))
        .map_fn::<Nodes, (), _>(|line, out| {
            let (a, b) = edge(line)?;
            out.emit((a, b), ())?;
            out.emit((b, a), ())
        })
        .group_by_first()
        .reduce(reduce_fn::<Nodes, (), _>(|(node, first), neighbours, out| {
            let least = first.min(node);
            each_neighbour(neighbours, |neighbour| {
                if neighbour <= node {
                    return Ok(());
                }
                if least < node {
                    out.context().count(Edges::Changed);
                }
                out.write(neighbour, least)
            })
        }))
        .reducers(Auto)
        .output(intermediate()))
}

fn small_star(edges: Vec<String>) -> Result<CompleteJob> {
    Ok(Job::new("small-star")
        .input(text(edges))
        .map_fn::<Nodes, (), _>(|line, out| {
            let (a, b) = edge(line)?;
            if a == b { Ok(()) } else { out.emit((a.max(b), a.min(b)), ()) }
        })
        .group_by_first()
        .reduce(reduce_fn::<Nodes, (), _>(|(node, least), smaller, out| {
            out.write(node, least)?;
            each_neighbour(smaller, |neighbour| {
                if neighbour == least {
                    return Ok(());
                }
                out.context().count(Edges::Changed);
                out.write(neighbour, least)
            })
        }))
        .reducers(Auto)
        .output(intermediate()))
}

/// Hands out the neighbours of a group, each once, smallest first.
fn each_neighbour(
    values: &mut Values<'_, Nodes, ()>,
    mut each: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut last = None;
    while values.next_value()?.is_some() {
        let (_, neighbour) = values.current_key()?;
        if last.replace(neighbour) != Some(neighbour) {
            each(neighbour)?;
        }
    }
    Ok(())
}

/// The centre of the star that a node is in; a node that is in none is its own.
fn label((inputs, stars, output): (Vec<String>, String, String)) -> Result<CompleteJob> {
    Ok(Job::new("label")
        .input(text(inputs))
        .map_fn::<u64, u64, _>(|line, out| {
            let (a, b) = edge(line)?;
            out.emit(a, a)?;
            out.emit(b, b)
        })
        .also(
            text([stars]),
            map_fn(|line, out| {
                let (node, centre) = edge(line)?;
                out.emit(node, centre)
            }),
        )
        .combine(Min)
        .reduce(Min)
        .reducers(Auto)
        .output(text_out(output)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_api::LocalRunner;

    use super::*;

    fn components(edges: &[Nodes]) -> (BTreeMap<u64, u64>, usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines: String = edges.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
        std::fs::write(path("in"), lines).unwrap();
        let runner = LocalRunner::new().reducers(2).split_bytes(200).tiny_memory();
        let cluster = Cluster::local(runner);
        drive(&mut Args::from_words([path("in"), path("out")]).unwrap(), &cluster).unwrap();
        let parts = ["out/part-r-00000", "out/part-r-00001"];
        let text: String = parts.map(|part| std::fs::read_to_string(path(part)).unwrap()).concat();
        let pairs = text.lines().map(|line| line.split_once('\t').unwrap());
        let pairs: Vec<Nodes> =
            pairs.map(|(node, of)| (node.parse().unwrap(), of.parse().unwrap())).collect();
        (pairs.iter().copied().collect(), pairs.len())
    }

    /// Union by a forest of parents, each pointing at a smaller node.
    fn slow(edges: &[Nodes]) -> BTreeMap<u64, u64> {
        let mut parents: BTreeMap<u64, u64> = BTreeMap::new();
        fn root(parents: &BTreeMap<u64, u64>, node: u64) -> u64 {
            match parents.get(&node) {
                Some(parent) if *parent != node => root(parents, *parent),
                _ => node,
            }
        }
        for (a, b) in edges {
            let roots = [*a, *b].map(|node| {
                parents.entry(node).or_insert(node);
                root(&parents, node)
            });
            parents.insert(roots[0].max(roots[1]), roots[0].min(roots[1]));
        }
        parents.keys().map(|node| (*node, root(&parents, *node))).collect()
    }

    #[test]
    fn components_are_those_of_a_union_of_sets() {
        let random: Vec<Nodes> = (0..150u64).map(|i| (i * i * 31 % 211, i * 57 % 211)).collect();
        let path: Vec<Nodes> = (1..60).map(|node| (node, node + 1)).rev().collect();
        let star: Vec<Nodes> = (0..40).map(|node| (99, node)).collect();
        for edges in [&random[..], &path, &star, &[(5, 5), (7, 3), (3, 7), (9, 9)], &[]] {
            let (found, lines) = components(edges);
            assert_eq!(found, slow(edges));
            assert_eq!(found.len(), lines, "each node has one line");
        }
    }
}
