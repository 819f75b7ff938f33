//! Workers: slots, liveness, and the orders that wait for them.
//!
//! Invariants: a worker never runs more attempts than it has slots (but for those it brings along at registration); orders are delivered in
//! order and exactly once, by numbering answers and sending the last one again until it is acknowledged.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::tracker::{Action, MapOutput, Register};
use protocol::{AttemptId, JobId, WorkerId};

/// Liveness of a worker.
///
/// ```text
/// (restart) Expected --register--> Live <-> Suspect
///               |                   |          |
///               +-------------------+----------+--> (gone)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Liveness {
    /// Known from before a restart as holder of map outputs; has not registered yet.
    Expected,
    /// Heard of lately.
    Live,
    /// Late: gets no new work.
    Suspect,
}

/// A worker process.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) host: String,
    pub(crate) rack: String,
    pub(crate) boot_id: String,
    pub(crate) http_address: String,
    pub(crate) slot_count: u32,
    pub(crate) running: BTreeSet<AttemptId>,
    pub(crate) liveness: Liveness,
    pub(crate) last_seen: Duration,
    queue: Vec<Action>,
    in_flight: Option<(u64, Vec<Action>)>,
    last_number: u64,
}

impl Worker {
    /// True if it is there and may get work once it has a free slot.
    pub(crate) fn is_usable(&self) -> bool {
        self.liveness == Liveness::Live && self.slot_count > 0
    }

    fn free(&self) -> u32 {
        let busy = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
        match self.liveness {
            Liveness::Live => self.slot_count.saturating_sub(busy),
            Liveness::Expected | Liveness::Suspect => 0,
        }
    }
}

/// All workers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<WorkerId, Worker>,
    by_address: BTreeMap<String, WorkerId>,
    by_free: BTreeSet<(Reverse<u32>, WorkerId)>,
    slot_count: u64,
    busy_count: u64,
}

impl Workers {
    /// A worker that is known.
    pub(crate) fn worker(&self, id: WorkerId) -> Option<&Worker> {
        self.all.get(&id)
    }

    /// All, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.all.values()
    }

    /// Workers that registered, their slots, and how many of those are in use.
    pub(crate) fn totals(&self) -> (u32, u64, u64) {
        let live = self.all.values().filter(|worker| worker.liveness != Liveness::Expected).count();
        (u32::try_from(live).unwrap_or(u32::MAX), self.slot_count, self.busy_count)
    }

    /// A worker that should come back after a restart.
    pub(crate) fn expect(&mut self, id: WorkerId, now: Duration) {
        let worker = Worker {
            id,
            host: String::new(),
            rack: String::new(),
            boot_id: String::new(),
            http_address: String::new(),
            slot_count: 0,
            running: BTreeSet::new(),
            liveness: Liveness::Expected,
            last_seen: now,
            queue: Vec::new(),
            in_flight: None,
            last_number: 0,
        };
        self.all.entry(id).or_insert(worker);
    }

    /// The other worker that was reached at `address`, which a new process now uses.
    pub(crate) fn predecessor(&self, address: &str, id: WorkerId) -> Option<WorkerId> {
        self.by_address.get(address).copied().filter(|other| *other != id)
    }

    /// Registers; orders not yet acknowledged are dropped. The attempts it was believed to run stay listed.
    pub(crate) fn register(&mut self, register: &Register, now: Duration) {
        let running = self.remove(register.worker).map(|old| old.running).unwrap_or_default();
        self.slot_count += u64::from(register.slot_count);
        self.busy_count += running.len() as u64;
        let worker = Worker {
            id: register.worker,
            host: register.host.clone(),
            rack: register.rack.clone(),
            boot_id: register.boot_id.clone(),
            http_address: register.http_address.clone(),
            slot_count: register.slot_count,
            running,
            liveness: Liveness::Live,
            last_seen: now,
            queue: Vec::new(),
            in_flight: None,
            last_number: 0,
        };
        self.by_address.insert(worker.http_address.clone(), worker.id);
        self.index(&worker);
        self.all.insert(worker.id, worker);
    }

    /// Forgets a worker.
    pub(crate) fn remove(&mut self, id: WorkerId) -> Option<Worker> {
        let worker = self.all.remove(&id)?;
        self.by_free.remove(&(Reverse(worker.free()), id));
        if self.by_address.get(&worker.http_address) == Some(&id) {
            self.by_address.remove(&worker.http_address);
        }
        self.slot_count -= u64::from(worker.slot_count);
        self.busy_count -= worker.running.len() as u64;
        Some(worker)
    }

    /// Heard of. True if it was suspect.
    pub(crate) fn seen(&mut self, id: WorkerId, now: Duration) -> bool {
        let was = self.all.get(&id).map(|worker| worker.liveness);
        self.change(id, |worker| {
            worker.last_seen = now;
            if worker.liveness == Liveness::Suspect {
                worker.liveness = Liveness::Live;
            }
        });
        was == Some(Liveness::Suspect)
    }

    /// Marks late workers and returns those that are gone.
    pub(crate) fn expire(
        &mut self,
        now: Duration,
        suspect: Duration,
        dead: Duration,
    ) -> Vec<WorkerId> {
        let late = |worker: &&Worker, limit| now.saturating_sub(worker.last_seen) >= limit;
        let gone = self.all.values().filter(|worker| late(worker, dead)).map(|worker| worker.id);
        let gone = gone.collect();
        let is_new = |worker: &&Worker| worker.liveness == Liveness::Live && late(worker, suspect);
        let suspects: Vec<WorkerId> =
            self.all.values().filter(is_new).map(|worker| worker.id).collect();
        for id in suspects {
            self.change(id, |worker| worker.liveness = Liveness::Suspect);
        }
        gone
    }

    /// An attempt takes a slot.
    pub(crate) fn occupy(&mut self, id: WorkerId, attempt: AttemptId) {
        let mut added = false;
        self.change(id, |worker| added = worker.running.insert(attempt));
        self.busy_count += u64::from(added);
    }

    /// An attempt gives its slot back.
    pub(crate) fn release(&mut self, id: WorkerId, attempt: AttemptId) {
        let mut removed = false;
        self.change(id, |worker| removed = worker.running.remove(&attempt));
        self.busy_count -= u64::from(removed);
    }

    /// True if some worker has a free slot.
    pub(crate) fn has_free(&self) -> bool {
        !self.by_free.is_empty()
    }

    /// Workers with free slots, most free first.
    pub(crate) fn free(&self) -> Vec<WorkerId> {
        self.by_free.iter().map(|(_, id)| *id).collect()
    }

    /// Queues an order. False if the worker is unknown.
    pub(crate) fn push(&mut self, id: WorkerId, action: Action) -> bool {
        let Some(worker) = self.all.get_mut(&id) else { return false };
        if worker.liveness == Liveness::Expected {
            return false;
        }
        worker.queue.push(action);
        true
    }

    /// Queues news of map outputs, joined with earlier news that have not left yet.
    pub(crate) fn push_outputs(
        &mut self,
        id: WorkerId,
        job: JobId,
        new: Option<&MapOutput>,
        gone: Option<AttemptId>,
    ) {
        let Some(worker) = self.all.get_mut(&id) else { return };
        if let Some(Action::MapOutputs { job: same, available, obsolete }) = worker.queue.last_mut()
            && *same == job
        {
            available.retain(|output| Some(output.attempt) != gone);
            available.extend(new.cloned());
            obsolete.extend(gone);
            return;
        }
        let (available, obsolete) =
            (new.cloned().into_iter().collect(), gone.into_iter().collect());
        worker.queue.push(Action::MapOutputs { job, available, obsolete });
    }

    /// What a poll that acknowledges `received` gets: the unacknowledged orders again, or the waiting ones; `None` if there are none.
    pub(crate) fn take_actions(
        &mut self,
        id: WorkerId,
        received: u64,
    ) -> Option<(u64, Vec<Action>)> {
        let worker = self.all.get_mut(&id)?;
        if worker.in_flight.as_ref().is_some_and(|(number, _)| *number <= received) {
            worker.in_flight = None;
        }
        if worker.in_flight.is_none() && !worker.queue.is_empty() {
            worker.last_number += 1;
            worker.in_flight = Some((worker.last_number, std::mem::take(&mut worker.queue)));
        }
        worker.in_flight.clone()
    }

    fn change(&mut self, id: WorkerId, change: impl FnOnce(&mut Worker)) {
        let Some(worker) = self.all.get_mut(&id) else { return };
        self.by_free.remove(&(Reverse(worker.free()), id));
        change(worker);
        if worker.free() > 0 {
            self.by_free.insert((Reverse(worker.free()), id));
        }
    }

    fn index(&mut self, worker: &Worker) {
        if worker.free() > 0 {
            self.by_free.insert((Reverse(worker.free()), worker.id));
        }
    }
}
