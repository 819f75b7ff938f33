//! What a DataNode does beside its work: it scans its replicas, compares its table with its disks, checks these and empties their trash.

use std::time::Duration;

use datanode::core::scrub::Next;
use datanode::scanner;

use super::process::{Process, SCAN_RATE_BYTES};
use crate::net::{Conn, Outbox, Part};

/// Most replicas that are scanned without a pause.
const SCANS_AT_ONCE: usize = 50;
const CHECK_PERIOD: Duration = Duration::from_secs(3);
const COMPARE_PERIOD: Duration = Duration::from_secs(40);

impl Process {
    pub(super) fn look_after_store(&mut self, out: &mut Outbox) {
        self.end_stopped(out);
        self.store.empty_trash(&|| false);
        while self.store.run_behind() {}
        let now = self.now;
        if now >= self.upkeep.checked + CHECK_PERIOD {
            self.upkeep.checked = now;
            self.store.check_volumes();
        }
        if now >= self.upkeep.compared + COMPARE_PERIOD {
            self.upkeep.compared = now;
            self.store.compare_with_disks(&|| false);
        }
        self.scan();
    }

    /// Writers that were asked to let go have lost their connections by now.
    fn end_stopped(&mut self, out: &mut Outbox) {
        let stopped = self.receptions.iter().filter(|(_, reception)| {
            reception.writer.as_ref().is_some_and(datanode::store::ReplicaWriter::is_stopped)
        });
        let stopped: Vec<Conn> = stopped.map(|(conn, _)| *conn).collect();
        for conn in stopped {
            let Some(reception) = self.receptions.remove(&conn) else { continue };
            out.stream(reception.front, self.place, conn, Part::End);
            self.drop_behind(&reception, out);
        }
    }

    /// The daemon's scanner until it rests.
    fn scan(&mut self) {
        let (store, upkeep) = (&self.store, &mut self.upkeep);
        let now = self.now.saturating_sub(upkeep.begin);
        for _ in 0..SCANS_AT_ONCE {
            let suspect = upkeep.scrub.suspect(now, || store.pop_suspect());
            let next = suspect
                .unwrap_or_else(|| upkeep.scrub.next(now, |after| store.next_finalized(after)));
            let Next::Scan(block) = next else { return };
            let Some(bytes) = scanner::scan(store, block, |_| ()) else { return };
            // Read within the rate, and without taking time.
            upkeep.scrub.scanned(now, bytes / SCAN_RATE_BYTES);
        }
    }
}
