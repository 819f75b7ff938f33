//! Safe mode: no changes until enough blocks are there, because a NameNode that knows few replicas would make wrong decisions.
//!
//! ```text
//! start -> Startup -> threshold and DataNodes reached -> (extension over, no report under way) -> Off
//! Off -> Manual -> Off        by hand
//! any -> OldMetadata -> Off   when a DataNode has blocks that were never handed out; off only by force
//! Off -> LowResources -> Off  by itself when a disk of the metadata is nearly full, and when there is room again
//! ```
//!
//! In `LowResources` nothing is missing from the picture. Calls that free room, orders to DataNodes and all housekeeping go on, so those who filled a disk can
//! empty it. So work of the NameNode itself asks [`SafeMode::stops_orders`]; [`SafeMode::is_on`] is for changes that somebody wants.
//!
//! The extension is 0 by default where HDFS waits 30 s: replicas that report after the threshold only cause copies, and those are
//! ordered by urgency and trimmed exactly; 30 s would be the longest part of a restart.

use protocol::namenode::Call;

/// Why changes are refused while a disk of the metadata is nearly full, in HDFS's words.
pub const LOW_RESOURCES: &str = "Resources are low on NN. Please add or free up more resources: files and snapshots can still be deleted (\"hdfs dfs -rm -skipTrash\", \"hdfs dfs -expunge -immediate\", \"hdfs dfs -deleteSnapshot\"). Safe mode is turned off automatically when there is room again; until then \"hdfs dfsadmin -safemode leave\" is refused.";

/// The state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SafeMode {
    /// Waiting for blocks since the start.
    Startup {
        /// When the threshold was reached, monotonic milliseconds.
        reached_ms: Option<u64>,
    },
    /// By hand.
    Manual,
    /// A disk of the metadata is nearly full.
    LowResources,
    /// DataNodes hold blocks with ids or stamps that were never handed out: the metadata is older than the data.
    OldMetadata {
        /// Replicas with such an id or stamp.
        ahead_count: u64,
    },
    /// Off.
    Off,
}

/// The rule that decides when start-up safe mode ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    /// Share of complete blocks that need a replica.
    pub threshold: f64,
    /// DataNodes that must be registered.
    pub datanodes_min: usize,
    /// How long the condition must hold, milliseconds.
    pub extension_ms: u64,
}

/// The facts that the rule is applied to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Situation {
    /// Complete blocks.
    pub block_count: u64,
    /// Complete blocks with a replica.
    pub present_count: u64,
    /// DataNodes that can take blocks.
    pub datanode_count: usize,
    /// Every DataNode that is not dead has reported all its replicas: waiting for more gains nothing.
    pub all_reported: bool,
    /// A DataNode has reported a part of its replicas. Those that reveal old metadata come last, because ids ascend.
    pub report_under_way: bool,
}

impl SafeMode {
    /// True while changes are refused.
    pub fn is_on(self) -> bool {
        self != SafeMode::Off
    }

    /// Leaves safe mode if the rule allows it. True if it left now.
    pub fn update(&mut self, rule: &Rule, situation: Situation, now_ms: u64) -> bool {
        let SafeMode::Startup { reached_ms } = self else { return false };
        if missing(rule, situation) > 0 || situation.datanode_count < rule.datanodes_min {
            *reached_ms = None;
            return false;
        }
        let since = *reached_ms.get_or_insert(now_ms);
        let left = now_ms.saturating_sub(since) >= rule.extension_ms && !situation.report_under_way;
        if left {
            *self = SafeMode::Off;
        }
        left
    }

    /// Turns it on if resources are low, and off if that was why it was on. True if it was turned on now.
    pub fn note_resources(&mut self, low: bool) -> bool {
        match (low, *self) {
            (true, SafeMode::Off) => *self = SafeMode::LowResources,
            (false, SafeMode::LowResources) => *self = SafeMode::Off,
            _ => return false,
        }
        low
    }

    /// True while DataNodes get no orders and nothing is given up: the picture is incomplete, or an operator wants to examine it.
    pub fn stops_orders(self) -> bool {
        self.is_on() && self != SafeMode::LowResources
    }

    /// True if the call is allowed although safe mode is on: it frees room where there is too little.
    pub fn lets_pass(self, call: &Call) -> bool {
        self == SafeMode::LowResources && call.refused().is_some_and(|refused| refused.frees_space)
    }

    /// Turns it on if metadata that is older than the data would hand out ids again: DataNodes have `ahead_count` replicas with an id or a
    /// stamp that was never handed out. It stays on when the DataNode that reported them goes away.
    pub fn note_ahead(&mut self, ahead_count: u64) {
        if ahead_count > 0 {
            *self = SafeMode::OldMetadata { ahead_count };
        }
    }

    /// What it is after it was entered by hand.
    pub fn entered_by_hand(self) -> SafeMode {
        if matches!(self, SafeMode::OldMetadata { .. }) { self } else { SafeMode::Manual }
    }

    /// What it is after it was left by hand, without force.
    pub fn left_by_hand(self) -> SafeMode {
        if matches!(self, SafeMode::OldMetadata { .. }) { self } else { SafeMode::Off }
    }

    /// Why changes are refused, in HDFS's words; `None` if they are not.
    pub fn reason(self, rule: &Rule, situation: Situation, now_ms: u64) -> Option<String> {
        match self {
            SafeMode::Off => None,
            SafeMode::OldMetadata { ahead_count } => Some(format!("DataNodes hold {ahead_count} replicas with ids or generation stamps that this NameNode has never handed out: its metadata directory is older than the data. Nothing is deleted. Start the NameNode with its newest metadata directory, or use \"hdfs dfsadmin -safemode forceExit\" to go on without the files that those replicas belong to; then they are deleted in time.")),
            SafeMode::LowResources => Some(LOW_RESOURCES.to_owned()),
            SafeMode::Manual => Some("It was turned on manually. Use \"hdfs dfsadmin -safemode leave\" to turn safe mode off.".to_owned()),
            SafeMode::Startup { reached_ms: Some(since) } => {
                let left_ms = rule.extension_ms.saturating_sub(now_ms.saturating_sub(since));
                Some(format!("The reported blocks {} has reached the threshold {:.4} of total blocks {}. Safe mode will be turned off automatically in {} seconds.",
                    situation.present_count, rule.threshold, situation.block_count, left_ms.div_ceil(1000)))
            }
            SafeMode::Startup { reached_ms: None } => {
                let mut text = match missing(rule, situation) {
                    0 => format!("The reported blocks {} has reached the threshold {:.4} of total blocks {}.",
                        situation.present_count, rule.threshold, situation.block_count),
                    count => format!("The reported blocks {} needs additional {count} blocks to reach the threshold {:.4} of total blocks {}.",
                        situation.present_count, rule.threshold, situation.block_count),
                };
                if situation.datanode_count < rule.datanodes_min {
                    text.push_str(&format!(" The number of live datanodes {} needs an additional {} live datanodes to reach the minimum number {}.",
                        situation.datanode_count, rule.datanodes_min - situation.datanode_count, rule.datanodes_min));
                }
                Some(text)
            }
        }
    }
}

/// How many blocks are missing from the threshold.
fn missing(rule: &Rule, situation: Situation) -> u64 {
    // Parts per million in whole numbers: exact for any count of blocks that fits in memory.
    let ppm = (rule.threshold.clamp(0.0, 1.0) * 1e6).round() as u128;
    let exact = u128::from(situation.block_count) * ppm;
    // While reports are under way the share is rounded up, so that few blocks do not count as none; afterwards down, as in HDFS.
    let needed = match situation.all_reported {
        false => exact.div_ceil(1_000_000),
        true => exact / 1_000_000,
    };
    u64::try_from(needed).unwrap_or(u64::MAX).saturating_sub(situation.present_count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_exactly_at_the_threshold() {
        let rule = Rule { threshold: 0.999, datanodes_min: 1, extension_ms: 0 };
        for (present, total, nodes, all_reported, leaves) in [
            (0, 0, 0, true, false),
            (0, 0, 1, false, true),
            (0, 1000, 3, true, false),
            (500, 1000, 3, true, false),
            (998, 1000, 3, true, false),
            (999, 1000, 3, false, true),
            (1000, 1000, 0, true, false),
            (1000, 1000, 3, true, true),
            (1, 1, 1, false, true),
            (0, 1, 1, false, false),
            (9, 10, 1, false, false),
            (9, 10, 1, true, true),
            (8, 10, 1, true, false),
        ] {
            let situation = Situation {
                block_count: total,
                present_count: present,
                datanode_count: nodes,
                all_reported,
                ..Situation::default()
            };
            let mut mode = SafeMode::Startup { reached_ms: None };
            assert_eq!(mode.update(&rule, situation, 0), leaves, "{present}/{total} on {nodes}");
            assert_eq!(mode.is_on(), !leaves);
            assert_eq!(mode.reason(&rule, situation, 0).is_some(), !leaves);
        }
    }

    #[test]
    fn lack_of_room_ends_with_it_and_lets_pass_what_frees_some() {
        let path = protocol::DfsPath::parse("/x").unwrap();
        let delete = Call::Delete { path: path.clone(), recursive: true };
        let name = "s".to_owned();
        let snapshot = Call::DeleteSnapshot { path: path.clone(), name };
        let other = Call::AllowSnapshot(path);
        for (mut mode, low, after, turned_on) in [
            (SafeMode::Off, true, SafeMode::LowResources, true),
            (SafeMode::LowResources, true, SafeMode::LowResources, false),
            (SafeMode::LowResources, false, SafeMode::Off, false),
            (SafeMode::Manual, false, SafeMode::Manual, false),
            (SafeMode::Manual, true, SafeMode::Manual, false),
            (
                SafeMode::Startup { reached_ms: None },
                false,
                SafeMode::Startup { reached_ms: None },
                false,
            ),
            (
                SafeMode::OldMetadata { ahead_count: 1 },
                false,
                SafeMode::OldMetadata { ahead_count: 1 },
                false,
            ),
        ] {
            let before = mode;
            assert_eq!((mode.note_resources(low), mode), (turned_on, after), "{before:?} {low}");
            let is_low = mode == SafeMode::LowResources;
            assert_eq!(
                [&delete, &snapshot, &other].map(|call| mode.lets_pass(call)),
                [is_low, is_low, false]
            );
            assert_eq!(mode.stops_orders(), mode.is_on() && !is_low);
        }
    }

    #[test]
    fn the_extension_counts_from_the_last_time_the_threshold_was_reached() {
        let rule = Rule { threshold: 1.0, datanodes_min: 1, extension_ms: 100 };
        let all = Situation {
            block_count: 10,
            present_count: 10,
            datanode_count: 1,
            ..Situation::default()
        };
        let few = Situation { present_count: 9, ..all };
        let mut mode = SafeMode::Startup { reached_ms: None };
        assert!(!mode.update(&rule, all, 0) && !mode.update(&rule, all, 99));
        assert!(!mode.update(&rule, few, 99));
        assert!(!mode.update(&rule, all, 100) && !mode.update(&rule, all, 199));
        assert!(mode.update(&rule, all, 200) && !mode.is_on());
        let mut manual = SafeMode::Manual;
        assert!(!manual.update(&rule, all, 1000) && manual.is_on());
        // The extension runs while a DataNode reports what it has, but safe mode does not end before the report is complete.
        let telling = Situation { report_under_way: true, ..all };
        let mut mode = SafeMode::Startup { reached_ms: None };
        assert!(!mode.update(&rule, telling, 0) && !mode.update(&rule, telling, 100));
        assert!(mode.update(&rule, all, 100) && !mode.is_on());
    }

    #[test]
    fn old_metadata_keeps_it_on_until_it_is_left_by_force() {
        let rule = Rule { threshold: 1.0, datanodes_min: 1, extension_ms: 0 };
        let right = Situation {
            block_count: 1,
            present_count: 1,
            datanode_count: 1,
            all_reported: true,
            ..Situation::default()
        };
        let on = SafeMode::OldMetadata { ahead_count: 7 };
        assert_eq!((on.left_by_hand(), SafeMode::Manual.left_by_hand()), (on, SafeMode::Off));
        assert_eq!((on.entered_by_hand(), SafeMode::Off.entered_by_hand()), (on, SafeMode::Manual));
        assert!(on.is_on() && on.reason(&rule, right, 0).unwrap().contains(" 7 replicas"));
        for (mut mode, ahead_count, after) in [
            (SafeMode::Startup { reached_ms: None }, 7, on),
            (SafeMode::Off, 7, on),
            (SafeMode::Off, 0, SafeMode::Off),
            (SafeMode::Manual, 7, on),
            (SafeMode::Manual, 0, SafeMode::Manual),
            (on, 0, on),
        ] {
            let before = mode;
            mode.note_ahead(ahead_count);
            assert_eq!(mode, after, "{before:?} {ahead_count}");
            assert!(!mode.update(&rule, right, 0));
        }
    }
}
