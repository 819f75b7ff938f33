//! Where replicas go, which one is dropped, and which one is copied: pure functions from a problem to an answer.
//!
//! Targets: the writer's node, then another rack, then that other rack again, then anywhere; never two on one machine while others have
//! room. If a preference cannot be met (one rack, one machine), the preference is dropped, not the replica. Of two nodes drawn at random
//! the less busy one is taken, then the emptier one: close to an even spread, without herding.
//!
//! Nodes are drawn from the places where the preference can be met. If `TRIES` draws find none, because few nodes there qualify, the nodes
//! are scanned from a random one on until two are found. So a choice among ten thousand DataNodes examines only a few, and a preference
//! that any node meets is met.

use protocol::BlockId;
use protocol::namenode::{AdminState, DatanodeState};

use crate::core::nodes::{Datanodes, Node, NodeIndex};
use crate::core::random::Generator;

/// The block to place.
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

impl Problem<'_> {
    /// True if the node is there and has room.
    fn takes(&self, index: NodeIndex) -> bool {
        let node = self.nodes.node(index);
        node.state == DatanodeState::Live && node.is_serving() && node.free() >= self.bytes
    }
}

/// Random draws before a scope is searched: where one node in eight qualifies, one in twenty-five choices needs that.
const TRIES: usize = 24;

/// Where the next replica should be.
#[derive(Clone, Copy, Debug)]
enum Scope<'a> {
    Host(&'a str),
    Rack(&'a str),
    OtherRack(&'a str),
    Anywhere,
}

impl<'a> Scope<'a> {
    /// Decides by how many replicas there are, and where.
    fn after(have: &[NodeIndex], nodes: &'a Datanodes, writer_host: &'a str) -> Self {
        let rack = |place: usize| nodes.node(have[place]).info.rack.as_str();
        match have.len() {
            0 => Scope::Host(writer_host),
            1 => Scope::OtherRack(rack(0)),
            2 if rack(0) == rack(1) => Scope::OtherRack(rack(0)),
            2 => Scope::Rack(rack(1)),
            _ => Scope::Anywhere,
        }
    }

    /// A random node of the scope, or of all nodes if the scope has no list to draw from.
    fn draw(self, nodes: &Datanodes, random: &mut Generator) -> Option<NodeIndex> {
        let list = match self {
            Scope::Host(host) => nodes.on_host(host),
            Scope::Rack(rack) => nodes.on_rack(rack),
            Scope::OtherRack(_) | Scope::Anywhere => {
                let count = nodes.len();
                return (count > 0).then(|| nodes.nth(random.below(count)));
            }
        };
        (!list.is_empty()).then(|| list[random.below(list.len())])
    }

    fn holds(self, node: &Node) -> bool {
        match self {
            Scope::OtherRack(rack) => node.info.rack != rack,
            Scope::Host(_) | Scope::Rack(_) | Scope::Anywhere => true,
        }
    }

    /// The nodes of the scope, from a random one on.
    fn scan(self, nodes: &Datanodes, random: &mut Generator) -> Vec<NodeIndex> {
        let mut all: Vec<NodeIndex> = match self {
            Scope::Host(host) => nodes.on_host(host).to_vec(),
            Scope::Rack(rack) => nodes.on_rack(rack).to_vec(),
            Scope::OtherRack(rack) => nodes
                .racks()
                .filter(|(name, _)| *name != rack)
                .flat_map(|(_, list)| list.iter().copied())
                .collect(),
            Scope::Anywhere => nodes.iter().map(|(index, _)| index).collect(),
        };
        if !all.is_empty() {
            let start = random.below(all.len());
            all.rotate_left(start);
        }
        all
    }
}

/// Chooses up to `count` targets; fewer if there are not enough nodes.
pub fn choose_targets(problem: Problem<'_>, random: &mut Generator) -> Vec<NodeIndex> {
    choose_targets_among(problem, |_| true, random)
}

/// True if these nodes, chosen for another block just before, can take this one.
pub(in crate::core) fn fit_again(problem: &Problem<'_>, targets: &[NodeIndex]) -> bool {
    targets.len() == problem.count && targets.iter().all(|index| problem.takes(*index))
}

/// Index of the replica that is read on a machine which has `count` replicas of a block, in order of their nodes. It depends on the block,
/// so the machine's nodes share the work and each block is in the page cache at most once.
pub(in crate::core) fn read_there(block: BlockId, count: usize) -> usize {
    usize::try_from(block.0 % count.max(1) as u64).unwrap_or(0)
}

/// Moves the replica that readers on the writer's machine read to the front: it is the one that stays in the page cache.
pub(in crate::core) fn put_read_first(
    nodes: &Datanodes,
    targets: &mut [NodeIndex],
    host: &str,
    block: BlockId,
) {
    let mut own: Vec<NodeIndex> =
        targets.iter().copied().filter(|target| nodes.node(*target).info.host == host).collect();
    if host.is_empty() || own.is_empty() {
        return;
    }
    own.sort_unstable();
    let read = own.get(read_there(block, own.len()));
    if let Some(place) = targets.iter().position(|target| Some(target) == read) {
        targets[..=place].rotate_right(1);
    }
}

/// As [`choose_targets`], only among nodes that are `allowed`.
pub(in crate::core) fn choose_targets_among(
    problem: Problem<'_>,
    allowed: impl Fn(NodeIndex) -> bool,
    random: &mut Generator,
) -> Vec<NodeIndex> {
    let mut have: Vec<NodeIndex> = problem.existing.to_vec();
    let mut targets = Vec::with_capacity(problem.count.min(problem.nodes.len()));
    while targets.len() < problem.count
        && let Some(chosen) = choose_one(&problem, &have, &allowed, random)
    {
        have.push(chosen);
        targets.push(chosen);
    }
    targets
}

fn choose_one(
    problem: &Problem<'_>,
    have: &[NodeIndex],
    allowed: impl Fn(NodeIndex) -> bool,
    random: &mut Generator,
) -> Option<NodeIndex> {
    let nodes = problem.nodes;
    let fits = |index: &NodeIndex| {
        problem.takes(*index)
            && !have.contains(index)
            && !problem.excluded.contains(index)
            && allowed(*index)
    };
    let is_new_host = |index: &NodeIndex| {
        let host = &nodes.node(*index).info.host;
        have.iter().all(|held| nodes.node(*held).info.host != *host)
    };
    let wanted = Scope::after(have, nodes, problem.writer_host);
    let wishes =
        [(wanted, true), (Scope::Anywhere, true), (wanted, false), (Scope::Anywhere, false)];
    wishes.into_iter().find_map(|(scope, new_host)| {
        let accepts = |index: &NodeIndex| fits(index) && (!new_host || is_new_host(index));
        choose_at(nodes, scope, random, accepts)
    })
}

/// The better of two random nodes of a scope; `None` if none is accepted there.
fn choose_at(
    nodes: &Datanodes,
    scope: Scope<'_>,
    random: &mut Generator,
    accepts: impl Fn(&NodeIndex) -> bool,
) -> Option<NodeIndex> {
    let mut found: Option<NodeIndex> = None;
    for _ in 0..TRIES {
        let index = scope.draw(nodes, random)?;
        if !scope.holds(nodes.node(index)) || !accepts(&index) {
            continue;
        }
        match found {
            Some(first) => return Some(better(nodes, first, index)),
            None => found = Some(index),
        }
    }
    found.or_else(|| {
        let mut rest = scope.scan(nodes, random).into_iter().filter(accepts);
        let first = rest.next()?;
        Some(rest.next().map_or(first, |second| better(nodes, first, second)))
    })
}

fn better(nodes: &Datanodes, a: NodeIndex, b: NodeIndex) -> NodeIndex {
    let cost = |index: NodeIndex| {
        let node = nodes.node(index);
        (node.load(), std::cmp::Reverse(node.free()), index)
    };
    if cost(a) <= cost(b) { a } else { b }
}

/// Chooses `count` of `holders` to lose their replica: first where a machine or a rack has several, so the rest stays spread; among equals the fullest.
pub(in crate::core) fn choose_excess(
    nodes: &Datanodes,
    holders: &[NodeIndex],
    count: usize,
) -> Vec<NodeIndex> {
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

/// True if all replicas of a block are on one rack although there are others. One replica is never misplaced. Replicas on nodes in
/// maintenance will return and count.
pub(in crate::core) fn is_misplaced(nodes: &Datanodes, holders: &[NodeIndex]) -> bool {
    if nodes.rack_count() < 2 {
        return false;
    }
    let stays = |node: &&Node| node.is_serving() || node.admin.is_maintenance();
    let mut staying = holders.iter().map(|index| nodes.node(*index)).filter(stays);
    let Some(first) = staying.next() else { return false };
    let mut others = staying.peekable();
    others.peek().is_some() && others.all(|node| node.info.rack == first.info.rack)
}

/// True if moving a replica leaves the others as spread over racks and machines as they are.
pub(in crate::core) fn keeps_rules(
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

/// Chooses who copies a replica: alive, with a free stream, the least busy; one that may be switched off at any moment last.
pub(in crate::core) fn choose_source(
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
            let is_late = node.state != DatanodeState::Live;
            (node.admin == AdminState::InMaintenance, is_late, node.load(), *index)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use protocol::DatanodeId;

    use super::*;
    use crate::core::nodes::{beat, info};

    /// Nodes as (host, rack, free bytes).
    fn cluster(spec: &[(&str, &str, u64)]) -> Datanodes {
        let mut nodes = Datanodes::new(1000, 2000, 100);
        for (number, (host, rack, free)) in (1..).zip(spec) {
            let index = nodes.register(info(number, host, rack), 0);
            nodes.heartbeat(index, &beat(*free), 0);
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

    /// Ranks a node for the next replica by examining everything: 0 is best, `None` where it must not be.
    fn rank(problem: &Problem<'_>, have: &[NodeIndex], index: NodeIndex) -> Option<usize> {
        let info = |index: NodeIndex| &problem.nodes.node(index).info;
        let node = problem.nodes.node(index);
        let usable = node.state == DatanodeState::Live
            && node.is_serving()
            && node.free() >= problem.bytes
            && !have.contains(&index)
            && !problem.excluded.contains(&index);
        let new_host = have.iter().all(|held| info(*held).host != node.info.host);
        let racks: Vec<&str> = have.iter().map(|held| info(*held).rack.as_str()).collect();
        let rack = node.info.rack.as_str();
        let wanted = match racks[..] {
            [] => node.info.host == problem.writer_host,
            [first] => rack != first,
            [first, second] if first == second => rack != first,
            [_, second] => rack == second,
            _ => true,
        };
        usable.then_some(match (wanted, new_host) {
            (true, true) => 0,
            (false, true) => 1,
            (true, false) => 2,
            (false, false) => 3,
        })
    }

    proptest! {
        #[test]
        fn every_target_is_as_good_as_any(
            spec in prop::collection::vec((0_u8..12, 0_u8..4, 0_u64..40, 0_u8..8), 0..120),
            (count, writer, seed) in (0_usize..6, 0_u8..14, any::<u64>()),
            (existing, excluded) in (
                prop::collection::vec(any::<prop::sample::Index>(), 0..3),
                prop::collection::vec(any::<prop::sample::Index>(), 0..9),
            ),
        ) {
            let mut nodes = Datanodes::new(1000, 2000, 100);
            for (number, (host, rack, free, state)) in (0..).zip(&spec) {
                // A machine is in one rack.
                let rack = format!("/r{}", (host % 4).min(*rack));
                let index = nodes.register(info(number, &format!("h{host}"), &rack), 0);
                nodes.heartbeat(index, &beat(*free), 0);
                match state {
                    0 => nodes.node_mut(index).state = DatanodeState::Stale,
                    1 => nodes.set_admin(index, AdminState::Decommissioned),
                    _ => {}
                }
            }
            let pick = |picks: &[prop::sample::Index]| -> Vec<NodeIndex> {
                let mut picked: Vec<NodeIndex> = match spec.is_empty() {
                    true => Vec::new(),
                    false => picks.iter().map(|pick| nodes.nth(pick.index(spec.len()))).collect(),
                };
                picked.sort_unstable();
                picked.dedup();
                picked
            };
            let (existing, excluded) = (pick(&existing), pick(&excluded));
            let writer_host = format!("h{writer}");
            let problem = Problem {
                nodes: &nodes,
                count,
                existing: &existing,
                excluded: &excluded,
                writer_host: &writer_host,
                bytes: 10,
            };
            let targets = choose_targets(problem, &mut Generator::new(seed));
            prop_assert_eq!(&targets, &choose_targets(problem, &mut Generator::new(seed)));
            let mut have = existing.clone();
            for target in &targets {
                let best = nodes.iter().filter_map(|(index, _)| rank(&problem, &have, index)).min();
                prop_assert_eq!(rank(&problem, &have, *target), best);
                have.push(*target);
            }
            let left = nodes.iter().filter_map(|(index, _)| rank(&problem, &have, index)).count();
            prop_assert!(targets.len() == count || left == 0, "{} of {}", targets.len(), count);
        }
    }

    #[test]
    fn one_node_with_room_among_thousands_is_found_and_the_load_spreads() {
        let mut nodes = Datanodes::new(1000, 2000, 100);
        for number in 0..2000_u32 {
            let mut info = info(0, &format!("h{number}"), &format!("/r{}", number % 40));
            info.id = DatanodeId(u128::from(number).to_be_bytes());
            let index = nodes.register(info, 0);
            nodes.heartbeat(index, &beat(100), 0);
        }
        let mut random = Generator::new(5);
        for _ in 0..4000 {
            let targets = choose_targets(problem(&nodes, 3, "h7"), &mut random);
            let racks: Vec<&str> =
                targets.iter().map(|t| nodes.node(*t).info.rack.as_str()).collect();
            assert!(targets[0] == NodeIndex(7) && racks[1] != "/r7" && racks[1] == racks[2]);
            targets[1..].iter().for_each(|target| nodes.note_chosen(*target, 0));
        }
        let most = nodes.iter().map(|(_, node)| node.chosen_count).max();
        assert!(most <= Some(9), "{most:?} where 4 is the mean");
        for number in 0..2000 {
            nodes.node_mut(NodeIndex(number)).remaining = 0;
        }
        nodes.node_mut(NodeIndex(1234)).remaining = 100;
        let targets = choose_targets(problem(&nodes, 3, "h7"), &mut random);
        assert_eq!(targets, [NodeIndex(1234)]);
    }
}
