//! A small set of DataNodes: up to three inline, because nearly every block has three replicas.

use crate::core::nodes::NodeIndex;

const INLINE: usize = 3;

/// A set of DataNodes in order of insertion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaSet {
    /// Up to three.
    Few {
        /// How many.
        count: u8,
        /// Only the first `count` are used.
        nodes: [NodeIndex; INLINE],
    },
    /// More, behind one word instead of three.
    Many(Box<Vec<NodeIndex>>),
}

const _: () = assert!(size_of::<ReplicaSet>() == 16, "a set is paid once per block");

impl Default for ReplicaSet {
    fn default() -> Self {
        ReplicaSet::Few { count: 0, nodes: [NodeIndex::default(); INLINE] }
    }
}

impl ReplicaSet {
    /// The nodes.
    pub fn as_slice(&self) -> &[NodeIndex] {
        match self {
            ReplicaSet::Few { count, nodes } => &nodes[..usize::from(*count)],
            ReplicaSet::Many(nodes) => nodes,
        }
    }

    /// Adds a node; false if it was there.
    pub fn insert(&mut self, node: NodeIndex) -> bool {
        if self.as_slice().contains(&node) {
            return false;
        }
        match self {
            ReplicaSet::Few { count, nodes } if usize::from(*count) < INLINE => {
                nodes[usize::from(*count)] = node;
                *count += 1;
            }
            ReplicaSet::Few { nodes, .. } => {
                let mut many = nodes.to_vec();
                many.push(node);
                *self = ReplicaSet::Many(Box::new(many));
            }
            ReplicaSet::Many(nodes) => nodes.push(node),
        }
        true
    }

    /// Removes a node; false if it was not there.
    pub fn remove(&mut self, node: NodeIndex) -> bool {
        let Some(place) = self.as_slice().iter().position(|held| *held == node) else {
            return false;
        };
        match self {
            ReplicaSet::Few { count, nodes } => {
                nodes.copy_within(place + 1.., place);
                *count -= 1;
            }
            ReplicaSet::Many(nodes) => {
                nodes.remove(place);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_as_a_list_without_repetition() {
        let mut set = ReplicaSet::default();
        let mut model: Vec<NodeIndex> = Vec::new();
        let mut state = 7_u32;
        for _ in 0..2000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let node = NodeIndex((state >> 16) % 9);
            if state & 0x100 == 0 {
                assert_eq!(set.insert(node), !model.contains(&node));
                if !model.contains(&node) {
                    model.push(node);
                }
            } else {
                assert_eq!(set.remove(node), model.contains(&node));
                model.retain(|held| *held != node);
            }
            assert_eq!(set.as_slice(), model);
        }
    }
}
