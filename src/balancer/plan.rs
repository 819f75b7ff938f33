//! Decides who gives how much to whom: pure, and as HDFS's balancer does.

use protocol::DatanodeId;

/// A DataNode that takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Node {
    pub(super) id: DatanodeId,
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) remaining: u64,
    /// True if it may give, not only take.
    pub(super) may_give: bool,
}

/// Bytes to move from one DataNode to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pair {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
}

/// The plan of an iteration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Plan {
    /// Bytes beyond the threshold: 0 when the cluster is balanced.
    pub(super) left_bytes: u64,
    pub(super) pairs: Vec<Pair>,
}

impl Plan {
    /// Bytes of all pairs.
    pub(super) fn bytes(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.bytes).sum()
    }
}

/// Plans an iteration for nodes whose use may differ from the average by `threshold` per cent of their capacity. First, those above the threshold give to those
/// below it; then each of these two groups evens out with the nodes in between. A node above the average that may not give is left alone.
pub(super) fn plan(nodes: &[Node], threshold: f64, bytes_per_node_max: u64) -> Plan {
    let capacity: u128 = nodes.iter().map(|node| u128::from(node.capacity)).sum();
    let used: u128 = nodes.iter().map(|node| u128::from(node.used)).sum();
    if capacity == 0 {
        return Plan::default();
    }
    let average = used as f64 / capacity as f64;
    let slack = threshold / 100.0;
    // Bytes above (or below) the average, and beyond the threshold.
    let fair = |node: &Node| (node.capacity as f64 * average) as u64;
    let margin = |node: &Node| (node.capacity as f64 * slack) as u64;
    let surplus = |node: &Node| match node.may_give {
        true => node.used.saturating_sub(fair(node)),
        false => 0,
    };
    let deficit = |node: &Node| fair(node).saturating_sub(node.used).min(node.remaining);
    let is_over = |node: &Node| surplus(node) > margin(node);
    let is_under = |node: &Node| fair(node).saturating_sub(node.used) > margin(node);
    let beyond = |node: &Node, bytes: u64| bytes.saturating_sub(margin(node));
    let over_bytes: u64 = nodes.iter().map(|node| beyond(node, surplus(node))).sum();
    let under_bytes: u64 =
        nodes.iter().map(|node| beyond(node, fair(node).saturating_sub(node.used))).sum();
    let mut plan = Plan { left_bytes: over_bytes.max(under_bytes), pairs: Vec::new() };
    if plan.left_bytes == 0 {
        return plan;
    }
    let mut gives: Vec<u64> =
        nodes.iter().map(|node| surplus(node).min(bytes_per_node_max)).collect();
    let mut takes: Vec<u64> =
        nodes.iter().map(|node| deficit(node).min(bytes_per_node_max)).collect();
    type Who<'a> = &'a dyn Fn(&Node) -> bool;
    let rounds: [(Who<'_>, Who<'_>); 3] =
        [(&is_over, &is_under), (&is_over, &|_| true), (&|_| true, &is_under)];
    for (may_give, may_take) in rounds {
        for from in 0..nodes.len() {
            for to in 0..nodes.len() {
                let bytes = gives[from].min(takes[to]);
                if bytes == 0 || !may_give(&nodes[from]) || !may_take(&nodes[to]) {
                    continue;
                }
                gives[from] -= bytes;
                takes[to] -= bytes;
                plan.pairs.push(Pair { from, to, bytes });
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(number: usize, capacity: u64, used: u64) -> Node {
        let id = DatanodeId([number as u8; 16]);
        Node { id, capacity, used, remaining: capacity - used, may_give: true }
    }

    fn nodes(spec: &[(u64, u64)]) -> Vec<Node> {
        spec.iter().enumerate().map(|(n, (capacity, used))| node(n, *capacity, *used)).collect()
    }

    #[test]
    fn who_is_beyond_the_threshold_gives_first() {
        let pair = |from, to, bytes| Pair { from, to, bytes };
        for (spec, threshold, left, pairs) in [
            (vec![], 10.0, 0, vec![]),
            (vec![(100, 50), (100, 50)], 10.0, 0, vec![]),
            (vec![(100, 55), (100, 45)], 10.0, 0, vec![]),
            (vec![(100, 80), (100, 20)], 10.0, 20, vec![pair(0, 1, 30)]),
            (vec![(100, 90), (100, 90), (100, 0)], 10.0, 50, vec![pair(0, 2, 30), pair(1, 2, 30)]),
            // A node with twice the capacity holds twice as much.
            (vec![(200, 100), (100, 50)], 1.0, 0, vec![]),
            // Within the threshold, but the only one that can take.
            (vec![(100, 66), (100, 45), (100, 48)], 10.0, 3, vec![pair(0, 1, 8), pair(0, 2, 5)]),
        ] {
            let plan = plan(&nodes(&spec), threshold, 10 << 30);
            assert_eq!((plan.left_bytes, &plan.pairs), (left, &pairs), "{spec:?}");
        }
    }

    #[test]
    fn who_may_not_give_is_left_alone() {
        let mut three = nodes(&[(100, 90), (100, 90), (100, 0)]);
        three[0].may_give = false;
        let found = plan(&three, 10.0, 10 << 30);
        assert_eq!(found.pairs, [Pair { from: 1, to: 2, bytes: 30 }]);
        assert_eq!(plan(&three, 10.0, 7).pairs, [Pair { from: 1, to: 2, bytes: 7 }]);
    }

    proptest! {
        #[test]
        fn iterations_end_balanced_and_never_overshoot(
            spec in prop::collection::vec((1000u64..100_000, 0.0f64..1.0), 1..12),
            threshold in 1.0f64..30.0,
        ) {
            let mut nodes: Vec<Node> = spec
                .iter()
                .enumerate()
                .map(|(n, (capacity, share))| node(n, *capacity, (*capacity as f64 * share) as u64))
                .collect();
            let total: u64 = nodes.iter().map(|node| node.used).sum();
            let mut left_bytes = u64::MAX;
            for _ in 0..nodes.len() + 2 {
                let plan = plan(&nodes, threshold, 10 << 30);
                prop_assert!(plan.left_bytes <= left_bytes, "it never gets worse");
                left_bytes = plan.left_bytes;
                for Pair { from, to, bytes } in plan.pairs {
                    prop_assert!(bytes > 0 && from != to && bytes <= nodes[to].remaining);
                    nodes[from].used -= bytes;
                    nodes[from].remaining += bytes;
                    nodes[to].used += bytes;
                    nodes[to].remaining -= bytes;
                }
            }
            prop_assert_eq!(nodes.iter().map(|node| node.used).sum::<u64>(), total);
            prop_assert_eq!(left_bytes, 0);
        }
    }
}
