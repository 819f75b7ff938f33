//! The room of the cluster: what the DataNodes in service have, each file system once.
//!
//! A DataNode reports what its disks have. Where several of them share one, each of them has all of it, but together they have no more.

use std::collections::HashMap;

use protocol::namenode::Room;

use super::{Datanodes, Node};

/// What is counted of one file system.
#[derive(Clone, Copy, Default)]
struct Part {
    sum: u64,
    most: u64,
}

impl Part {
    fn add(&mut self, bytes: u64) {
        self.sum = self.sum.saturating_add(bytes);
        self.most = self.most.max(bytes);
    }

    /// What is in the sum more than once.
    fn excess(self) -> u64 {
        self.sum - self.most
    }
}

impl Datanodes {
    /// The room of all nodes in service.
    pub fn room(&self) -> Room {
        room(self.iter().map(|(_, node)| node))
    }
}

/// The room of those in service.
///
/// It is the sum over the nodes, less what volumes on one file system have in common. They differ by their reserves alone, and the smallest reserve is all that
/// blocks cannot have. Volumes of different machines never share: a file system is known by its number and the boot of its machine.
fn room<'a>(nodes: impl Iterator<Item = &'a Node>) -> Room {
    let mut room = Room::default();
    let mut shared: HashMap<(&str, u64), [Part; 2]> = HashMap::new();
    for node in nodes.filter(|node| node.is_serving()) {
        room.capacity = room.capacity.saturating_add(node.capacity);
        room.used = room.used.saturating_add(node.used);
        room.remaining = room.remaining.saturating_add(node.remaining);
        if node.info.boot_id.is_empty() {
            continue;
        }
        for volume in node.volumes.iter().filter(|volume| volume.failure.is_none()) {
            if let Some(device) = volume.device {
                let parts = shared.entry((&node.info.boot_id, device)).or_default();
                parts[0].add(volume.capacity);
                parts[1].add(volume.remaining);
            }
        }
    }
    for [capacity, remaining] in shared.into_values() {
        room.capacity = room.capacity.saturating_sub(capacity.excess());
        room.remaining = room.remaining.saturating_sub(remaining.excess());
    }
    room.non_dfs_used = room.capacity.saturating_sub(room.used).saturating_sub(room.remaining);
    room
}

#[cfg(test)]
mod tests {
    use protocol::datanode::Heartbeat;
    use protocol::namenode::{AdminState, Volume, VolumeFailure};

    use super::super::{Datanodes, info};

    /// A node on the machine `boot` that has volumes `(device, capacity, used, remaining)`.
    fn add(nodes: &mut Datanodes, boot: &str, volumes: &[(Option<u64>, u64, u64, u64)]) {
        let number = u8::try_from(nodes.iter().count() + 1).unwrap();
        let info = protocol::namenode::DatanodeInfo {
            boot_id: boot.to_owned(),
            ..info(number, "host", "/r")
        };
        let index = nodes.register(info, 0);
        let volume = |&(device, capacity, used, remaining): &(Option<u64>, u64, u64, u64)| Volume {
            device,
            capacity,
            used,
            remaining,
            ..Volume::default()
        };
        let volumes: Vec<Volume> = volumes.iter().map(volume).collect();
        let sum = |of: fn(&Volume) -> u64| volumes.iter().map(of).sum();
        let beat = Heartbeat {
            capacity: sum(|volume| volume.capacity),
            used: sum(|volume| volume.used),
            remaining: sum(|volume| volume.remaining),
            volumes,
            ..Heartbeat::default()
        };
        nodes.heartbeat(index, &beat, 0);
    }

    fn of(nodes: &Datanodes) -> [u64; 4] {
        let room = nodes.room();
        [room.capacity, room.used, room.non_dfs_used, room.remaining]
    }

    #[test]
    fn a_file_system_counts_once() {
        let disk = Some(8);
        for (machines, expected) in [
            // Three on one disk, each of which uses 10.
            (["a", "a", "a"], [100, 30, 20, 50]),
            // The same number on two machines.
            (["a", "a", "b"], [200, 30, 70, 100]),
            (["a", "b", "c"], [300, 30, 120, 150]),
            // A machine that does not tell its boot.
            (["", "", ""], [300, 30, 120, 150]),
        ] {
            let mut nodes = Datanodes::new(200, 2000, 100);
            for boot in machines {
                add(&mut nodes, boot, &[(disk, 100, 10, 50)]);
            }
            assert_eq!(of(&nodes), expected, "{machines:?}");
        }
    }

    #[test]
    fn disks_of_ones_own_add_up_and_reserves_differ() {
        let mut nodes = Datanodes::new(200, 2000, 100);
        add(&mut nodes, "a", &[(Some(1), 100, 5, 60), (Some(2), 200, 5, 100)]);
        assert_eq!(of(&nodes), [300, 10, 130, 160]);
        // One that leaves 20 more to others on the second disk, and one whose disk is not known.
        add(&mut nodes, "a", &[(Some(2), 180, 5, 80), (None, 50, 0, 50)]);
        assert_eq!(of(&nodes), [350, 15, 125, 210]);
        // Two directories of one node on one disk.
        add(&mut nodes, "b", &[(Some(1), 100, 1, 60), (Some(1), 100, 2, 60)]);
        assert_eq!(of(&nodes), [450, 18, 162, 270]);
    }

    #[test]
    fn what_is_out_of_service_has_no_room() {
        let mut nodes = Datanodes::new(200, 2000, 100);
        add(&mut nodes, "a", &[(Some(1), 100, 5, 60)]);
        add(&mut nodes, "a", &[(Some(1), 100, 5, 60)]);
        let second = nodes.iter().nth(1).unwrap().0;
        let failure = Some(VolumeFailure::default());
        let failed = Volume { device: Some(1), capacity: 100, failure, ..Volume::default() };
        let beat = Heartbeat { volumes: vec![failed], ..Heartbeat::default() };
        nodes.heartbeat(second, &beat, 0);
        assert_eq!(of(&nodes), [100, 5, 35, 60], "a failed volume");
        let first = nodes.iter().next().unwrap().0;
        nodes.set_admin(first, AdminState::DecommissionInProgress);
        assert_eq!(of(&nodes), [0; 4], "a node that leaves");
    }
}
