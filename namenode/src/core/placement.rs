//! Where replicas go, which one is dropped, and which one is copied: pure functions from a problem to an answer.
//!
//! Targets: the writer's node, then another rack, then that other rack again, then anywhere; never two on one machine while
//! others have room. Where a wish cannot be met (one rack, one machine) it is dropped, not the replica. Of two nodes drawn at
//! random the less busy one is taken, then the emptier one: close to an even spread, without herding.

use protocol::namenode::DatanodeState;

use super::datanodes::{Datanodes, Node, NodeIndex};
use super::random::Generator;

/// What is to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Who could take it.
    pub nodes: &'a Datanodes,
    /// How many targets are wanted.
    pub count: usize,
    /// Who has it already, in pipeline order.
    pub existing: &'a [NodeIndex],
    /// Who must not be chosen.
    pub excluded: &'a [NodeIndex],
    /// Machine of the writer; may be empty.
    pub writer_host: &'a str,
    /// Room that is needed, bytes.
    pub bytes: u64,
}

/// Chooses up to `count` targets; fewer if there are not enough nodes.
pub fn choose_targets(problem: Problem<'_>, random: &mut Generator) -> Vec<NodeIndex> {
    let nodes = problem.nodes;
    let mut candidates: Vec<NodeIndex> = nodes
        .iter()
        .filter(|(index, node)| {
            node.state == DatanodeState::Live
                && node.is_serving()
                && node.free() >= problem.bytes
                && !problem.existing.contains(index)
                && !problem.excluded.contains(index)
        })
        .map(|(index, _)| index)
        .collect();
    let mut have: Vec<NodeIndex> = problem.existing.to_vec();
    let mut targets = Vec::with_capacity(problem.count);
    while targets.len() < problem.count && !candidates.is_empty() {
        let place = choose_one(nodes, &candidates, &have, problem.writer_host, random);
        let chosen = candidates.swap_remove(place);
        candidates.sort_unstable();
        have.push(chosen);
        targets.push(chosen);
    }
    targets
}

fn choose_one(
    nodes: &Datanodes,
    candidates: &[NodeIndex],
    have: &[NodeIndex],
    writer_host: &str,
    random: &mut Generator,
) -> usize {
    let is_new_host =
        |node: &Node| have.iter().all(|held| nodes.node(*held).info.host != node.info.host);
    let rack = |place: usize| nodes.node(have[place]).info.rack.as_str();
    let is_wanted_rack = |node: &Node| match have.len() {
        0 => node.info.host == writer_host,
        1 => node.info.rack != rack(0),
        2 if rack(0) == rack(1) => node.info.rack != rack(0),
        2 => node.info.rack == rack(1),
        _ => true,
    };
    let wishes: [&dyn Fn(&Node) -> bool; 4] = [
        &|node| is_wanted_rack(node) && is_new_host(node),
        &|node| is_new_host(node),
        &|node| is_wanted_rack(node),
        &|_| true,
    ];
    let mut places: Vec<usize> = Vec::new();
    for wish in wishes {
        places.extend((0..candidates.len()).filter(|place| wish(nodes.node(candidates[*place]))));
        if !places.is_empty() {
            break;
        }
    }
    let (a, b) = (places[random.below(places.len())], places[random.below(places.len())]);
    let cost = |place: usize| {
        let node = nodes.node(candidates[place]);
        (node.load(), std::cmp::Reverse(node.free()), place)
    };
    if cost(a) <= cost(b) { a } else { b }
}

/// Chooses `count` of `holders` to lose their replica: first where a machine or a rack has several, so that the rest stays
/// spread; among equals the fullest.
pub fn choose_excess(nodes: &Datanodes, holders: &[NodeIndex], count: usize) -> Vec<NodeIndex> {
    let mut left: Vec<NodeIndex> = holders.to_vec();
    let mut excess = Vec::new();
    while excess.len() < count && left.len() > 1 {
        let cost = |index: &NodeIndex| {
            let node = nodes.node(*index);
            let info = &node.info;
            let others = || left.iter().filter(|other| *other != index).map(|i| nodes.node(*i));
            let shares_host = others().any(|other| other.info.host == info.host);
            let shares_rack = others().any(|other| other.info.rack == info.rack);
            let stale = node.state != DatanodeState::Live;
            (!shares_host, !shares_rack, !stale, node.free(), *index)
        };
        let Some(place) = (0..left.len()).min_by_key(|place| cost(&left[*place])) else { break };
        excess.push(left.remove(place));
    }
    excess
}

/// True if all replicas of a block are on one rack although there are others. One replica is never misplaced.
pub fn is_misplaced(nodes: &Datanodes, holders: &[NodeIndex]) -> bool {
    if nodes.rack_count() < 2 {
        return false;
    }
    let mut serving =
        holders.iter().map(|index| nodes.node(*index)).filter(|node| node.is_serving());
    let Some(first) = serving.next() else { return false };
    let mut others = serving.peekable();
    others.peek().is_some() && others.all(|node| node.info.rack == first.info.rack)
}

/// True if moving a replica leaves the others as spread over racks and machines as they are.
pub fn keeps_rules(
    nodes: &Datanodes,
    holders: &[NodeIndex],
    from: NodeIndex,
    to: NodeIndex,
) -> bool {
    let others = || holders.iter().filter(|index| **index != from).map(|index| nodes.node(*index));
    let (source, target) = (&nodes.node(from).info, &nodes.node(to).info);
    let shares = |part: fn(&Node) -> &str, name: &str| others().any(|node| part(node) == name);
    let host = |node: &Node| -> bool { node.info.host == target.host };
    let new_host = !others().any(host) || shares(|node| &node.info.host, &source.host);
    let same_rack = source.rack == target.rack;
    let new_rack = !shares(|node| &node.info.rack, &target.rack);
    let rack_is_shared = shares(|node| &node.info.rack, &source.rack);
    new_host && (same_rack || new_rack || rack_is_shared)
}

/// Chooses who copies a replica: alive, with a free stream, the least busy.
pub fn choose_source(
    nodes: &Datanodes,
    holders: &[NodeIndex],
    streams_max: u32,
) -> Option<NodeIndex> {
    holders
        .iter()
        .copied()
        .filter(|index| {
            let node = nodes.node(*index);
            node.state != DatanodeState::Dead && node.outgoing < streams_max
        })
        .min_by_key(|index| {
            let node = nodes.node(*index);
            (node.state != DatanodeState::Live, node.load(), *index)
        })
}

#[cfg(test)]
mod tests {
    use super::super::datanodes::tests::{beat, info};
    use super::*;

    /// Nodes as (host, rack, free bytes).
    fn cluster(spec: &[(&str, &str, u64)]) -> Datanodes {
        let mut nodes = Datanodes::new(1000, 2000, 100);
        for (number, (host, rack, free)) in (1..).zip(spec) {
            nodes.register(info(number, host, rack), 0);
            nodes.heartbeat(&beat(number, *free), 0).unwrap();
        }
        nodes
    }

    fn problem<'a>(nodes: &'a Datanodes, count: usize, writer_host: &'a str) -> Problem<'a> {
        Problem { nodes, count, existing: &[], excluded: &[], writer_host, bytes: 10 }
    }

    #[test]
    fn writer_then_other_rack_then_that_rack_again() {
        let nodes = cluster(&[
            ("a", "/r1", 100),
            ("b", "/r1", 100),
            ("c", "/r1", 100),
            ("d", "/r2", 100),
            ("e", "/r2", 100),
            ("f", "/r2", 100),
        ]);
        for seed in 0..200 {
            let targets = choose_targets(problem(&nodes, 3, "b"), &mut Generator::new(seed));
            let racks: Vec<&str> =
                targets.iter().map(|index| nodes.node(*index).info.rack.as_str()).collect();
            assert_eq!(targets[0], NodeIndex(1), "seed {seed}");
            assert_eq!(racks, ["/r1", "/r2", "/r2"], "seed {seed}");
        }
    }

    #[test]
    fn one_rack_one_machine_and_too_few_nodes_still_work() {
        let same = [("a", "/r", 100); 3];
        for (spec, count, expected) in [(&same[..], 3, 3), (&same[..2], 3, 2), (&[], 3, 0)] {
            let nodes = cluster(spec);
            let mut targets = choose_targets(problem(&nodes, count, "zz"), &mut Generator::new(1));
            targets.sort_unstable();
            targets.dedup();
            assert_eq!(targets.len(), expected);
        }
        let nodes = cluster(&[("a", "/r", 100), ("a", "/r", 100), ("b", "/r", 100)]);
        for seed in 0..50 {
            let targets = choose_targets(problem(&nodes, 2, "a"), &mut Generator::new(seed));
            assert!(targets.contains(&NodeIndex(2)), "two machines before two disks of one");
        }
    }

    #[test]
    fn full_stale_and_excluded_nodes_are_left_out() {
        let mut nodes =
            cluster(&[("a", "/r", 9), ("b", "/r", 100), ("c", "/r", 100), ("d", "/r", 100)]);
        nodes.node_mut(NodeIndex(1)).state = DatanodeState::Stale;
        nodes.note_chosen(NodeIndex(3), 91);
        let all = problem(&nodes, 4, "a");
        assert_eq!(choose_targets(all, &mut Generator::new(1)), [NodeIndex(2)]);
        let excluded = Problem { excluded: &[NodeIndex(2)], ..all };
        assert!(choose_targets(excluded, &mut Generator::new(1)).is_empty());
    }

    #[test]
    fn load_spreads() {
        let mut nodes = cluster(&[("a", "/r", 1 << 40); 10]);
        let mut random = Generator::new(3);
        for _ in 0..1000 {
            let target = choose_targets(problem(&nodes, 1, ""), &mut random)[0];
            nodes.note_chosen(target, 10);
        }
        for (index, node) in nodes.iter() {
            assert!((85..=115).contains(&node.chosen_count), "{index:?}: {}", node.chosen_count);
        }
    }

    #[test]
    fn excess_leaves_the_spread_and_sources_are_the_idle() {
        let mut nodes = cluster(&[
            ("a", "/r1", 50),
            ("b", "/r1", 40),
            ("c", "/r2", 30),
            ("d", "/r2", 20),
            ("d", "/r2", 60),
        ]);
        let all: Vec<NodeIndex> = (0..5).map(NodeIndex).collect();
        assert_eq!(choose_excess(&nodes, &all, 1), [NodeIndex(3)], "two on machine d, the fuller");
        assert_eq!(choose_excess(&nodes, &all[..4], 2), [NodeIndex(3), NodeIndex(1)]);
        assert_eq!(choose_excess(&nodes, &all[..1], 1), [], "never the last");
        nodes.node_mut(NodeIndex(0)).outgoing = 2;
        nodes.node_mut(NodeIndex(1)).outgoing = 1;
        assert_eq!(choose_source(&nodes, &all[..2], 2), Some(NodeIndex(1)));
        nodes.node_mut(NodeIndex(1)).state = DatanodeState::Dead;
        assert_eq!(choose_source(&nodes, &all[..2], 2), None);
    }
}
