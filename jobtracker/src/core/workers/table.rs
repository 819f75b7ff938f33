//! Workers: slots, liveness, and the orders that wait for them.
//!
//! Invariants: a worker never runs more attempts than it has slots (except those it already has at registration); orders are delivered in
//! order and exactly once, by numbering answers and sending the last one again until it is acknowledged.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::tracker::{Action, MapOutput, Register};
use protocol::{AttemptId, JobId, WorkerId};

use super::answer;
use super::free_slots::FreeSlots;
use super::recent::Recent;

/// If this process received nothing and did not check the time for this long, four times the usual, then it stood still itself, and not the
/// workers.
pub(crate) const DEAF_MAX: Duration = Duration::from_secs(1);

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
    /// Sent a sign of life recently.
    Live,
    /// Late: gets no new work.
    Suspect,
}

/// Attempts of a worker since it registered or this process started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct WorkerTally {
    pub(crate) launched: u64,
    /// Attempts that won their tasks.
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
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
    pub(crate) isolation: String,
    pub(crate) running: BTreeSet<AttemptId>,
    pub(crate) liveness: Liveness,
    pub(crate) last_seen: Duration,
    /// Jobs that failed on it too often and succeeded elsewhere, less those forgiven.
    pub(crate) faults: u32,
    forgiven: Duration,
    /// Too many faults: gets no new work.
    pub(crate) blacklisted: bool,
    /// Being drained: gets no new work.
    pub(crate) excluded: bool,
    /// The attempts it was given so far.
    pub(crate) tally: WorkerTally,
    /// How they ended lately.
    pub(crate) recent: Recent,
    queue: Vec<Action>,
    in_flight: Option<(u64, Vec<Action>)>,
    last_number: u64,
}

impl Worker {
    /// True if it is live and may get work once it has a free slot.
    pub(crate) fn is_usable(&self) -> bool {
        self.liveness == Liveness::Live && !self.blacklisted && !self.excluded
    }

    fn free(&self) -> u32 {
        if !self.is_usable() {
            return 0;
        }
        self.slot_count.saturating_sub(u32::try_from(self.running.len()).unwrap_or(u32::MAX))
    }
}

/// Workers that may get work.
#[derive(PartialEq, Debug, Default)]
struct Usable {
    /// Those with free slots, most free first.
    by_free: BTreeSet<(Reverse<u32>, WorkerId)>,
    worker_count: usize,
    slot_count: u64,
}

impl Usable {
    fn add(&mut self, worker: &Worker) {
        if worker.is_usable() {
            self.worker_count += 1;
            self.slot_count += u64::from(worker.slot_count);
        }
        if worker.free() > 0 {
            self.by_free.insert((Reverse(worker.free()), worker.id));
        }
    }

    fn remove(&mut self, worker: &Worker) {
        if worker.is_usable() {
            self.worker_count -= 1;
            self.slot_count -= u64::from(worker.slot_count);
        }
        self.by_free.remove(&(Reverse(worker.free()), worker.id));
    }
}

/// All workers.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: BTreeMap<WorkerId, Worker>,
    by_address: BTreeMap<String, WorkerId>,
    usable: Usable,
    /// Registered workers by machine.
    by_host: BTreeMap<String, u32>,
    /// Names of workers to drain.
    excluded: BTreeSet<String>,
    slot_count: u64,
    busy_count: u64,
    /// When this process last listened: it received a worker's message, or checked the time.
    listened: Duration,
    deaf_until: Duration,
}

impl Workers {
    /// The worker with this id, if known.
    pub(crate) fn worker(&self, id: WorkerId) -> Option<&Worker> {
        self.all.get(&id)
    }

    /// All workers, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Worker> {
        self.all.values()
    }

    /// Registered workers, their slots, and how many of those are in use.
    pub(crate) fn totals(&self) -> (u32, u64, u64) {
        let live = self.all.values().filter(|worker| worker.liveness != Liveness::Expected).count();
        (u32::try_from(live).unwrap_or(u32::MAX), self.slot_count, self.busy_count)
    }

    /// A worker that should return after a restart.
    pub(crate) fn expect(&mut self, id: WorkerId, now: Duration) {
        let worker = Worker {
            id,
            host: String::new(),
            rack: String::new(),
            boot_id: String::new(),
            http_address: String::new(),
            slot_count: 0,
            isolation: String::new(),
            running: BTreeSet::new(),
            liveness: Liveness::Expected,
            last_seen: now,
            faults: 0,
            forgiven: now,
            blacklisted: false,
            excluded: false,
            tally: WorkerTally::default(),
            recent: Recent::default(),
            queue: Vec::new(),
            in_flight: None,
            last_number: 0,
        };
        self.all.entry(id).or_insert(worker);
    }

    /// The other worker that used `address`, which a new process now uses.
    pub(crate) fn predecessor(&self, address: &str, id: WorkerId) -> Option<WorkerId> {
        self.by_address.get(address).copied().filter(|other| *other != id)
    }

    /// Registers a worker; drops orders not yet acknowledged. The attempts that it was believed to run stay listed.
    pub(crate) fn register(&mut self, register: &Register, now: Duration) {
        let old = self.remove(register.worker);
        let (faults, blacklisted, forgiven) = match &old {
            Some(old) => (old.faults, old.blacklisted, old.forgiven),
            None => (0, false, now),
        };
        let tally = old.as_ref().map(|old| old.tally).unwrap_or_default();
        let (running, recent) = old.map(|old| (old.running, old.recent)).unwrap_or_default();
        self.slot_count += u64::from(register.slot_count);
        self.busy_count += running.len() as u64;
        let worker = Worker {
            id: register.worker,
            host: register.host.clone(),
            rack: register.rack.clone(),
            boot_id: register.boot_id.clone(),
            http_address: register.http_address.clone(),
            slot_count: register.slot_count,
            isolation: register.isolation.clone(),
            running,
            liveness: Liveness::Live,
            last_seen: now,
            faults,
            forgiven,
            blacklisted,
            excluded: is_named(&self.excluded, &register.host, &register.http_address),
            tally,
            recent,
            queue: Vec::new(),
            in_flight: None,
            last_number: 0,
        };
        self.by_address.insert(worker.http_address.clone(), worker.id);
        *self.by_host.entry(worker.host.clone()).or_default() += 1;
        self.usable.add(&worker);
        self.all.insert(worker.id, worker);
    }

    /// Forgets a worker.
    pub(crate) fn remove(&mut self, id: WorkerId) -> Option<Worker> {
        let worker = self.all.remove(&id)?;
        self.usable.remove(&worker);
        if self.by_address.get(&worker.http_address) == Some(&id) {
            self.by_address.remove(&worker.http_address);
        }
        if let Some(count) = self.by_host.get_mut(&worker.host) {
            *count -= 1;
            if *count == 0 {
                self.by_host.remove(&worker.host);
            }
        }
        self.slot_count -= u64::from(worker.slot_count);
        self.busy_count -= worker.running.len() as u64;
        Some(worker)
    }

    /// A sign of life. True if the worker was suspect.
    pub(crate) fn seen(&mut self, id: WorkerId, now: Duration) -> bool {
        self.listen(now);
        let was = self.all.get(&id).map(|worker| worker.liveness);
        self.change(id, |worker| {
            worker.last_seen = now;
            if worker.liveness == Liveness::Suspect {
                worker.liveness = Liveness::Live;
            }
        });
        was == Some(Liveness::Suspect)
    }

    /// Records that this process listens. After a long time without listening, no worker could have been received, so every worker gets a
    /// new term.
    pub(crate) fn listen(&mut self, now: Duration) {
        if now.saturating_sub(self.listened) > DEAF_MAX {
            self.all.values_mut().for_each(|worker| worker.last_seen = now);
            self.deaf_until = now;
        }
        self.listened = now;
    }

    /// When the last such time without listening ended.
    pub(crate) fn deaf_until(&self) -> Duration {
        self.deaf_until
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

    /// An attempt takes a slot. False if it had one.
    pub(crate) fn occupy(&mut self, id: WorkerId, attempt: AttemptId) -> bool {
        let mut added = false;
        self.change(id, |worker| {
            added = worker.running.insert(attempt);
            worker.tally.launched += u64::from(added);
        });
        self.busy_count += u64::from(added);
        added
    }

    /// An attempt gives its slot back. False if it had none.
    pub(crate) fn release(&mut self, id: WorkerId, attempt: AttemptId) -> bool {
        let mut removed = false;
        self.change(id, |worker| removed = worker.running.remove(&attempt));
        self.busy_count -= u64::from(removed);
        removed
    }

    /// An attempt won its task, or failed.
    pub(crate) fn count_end(
        &mut self,
        id: WorkerId,
        attempt: AttemptId,
        is_success: bool,
        at: Duration,
    ) {
        let Some(worker) = self.all.get_mut(&id) else { return };
        worker.recent.note(attempt, is_success, at);
        match is_success {
            true => worker.tally.succeeded += 1,
            false => worker.tally.failed += 1,
        }
    }

    /// Names the workers to drain.
    pub(crate) fn set_excluded(&mut self, names: BTreeSet<String>) {
        self.excluded = names;
        let ids: Vec<WorkerId> = self.all.keys().copied().collect();
        for id in ids {
            let Some(worker) = self.all.get(&id) else { continue };
            let excluded = is_named(&self.excluded, &worker.host, &worker.http_address);
            self.change(id, |worker| worker.excluded = excluded);
        }
    }

    /// A job had to avoid a worker. A worker with `limit` faults is excluded for all jobs if, among three or more workers, it also has more
    /// than one and a half times the mean. It is not excluded if that would leave out more than half of the workers that are not drained.
    pub(crate) fn add_fault(&mut self, id: WorkerId, now: Duration, limit: u32) {
        let others = |worker: &&Worker| {
            worker.liveness != Liveness::Expected && (!worker.excluded || worker.id == id)
        };
        let mut total: u64 = 0;
        let (mut out, mut count) = (0, 0);
        for worker in self.all.values().filter(others) {
            total += u64::from(worker.faults);
            out += usize::from(worker.blacklisted);
            count += 1;
        }
        self.change(id, |worker| {
            if worker.faults == 0 {
                worker.forgiven = now;
            }
            worker.faults = worker.faults.saturating_add(1);
            let is_above = u64::from(worker.faults) * 2 * count as u64 > (total + 1) * 3;
            let is_bad = limit > 0 && worker.faults >= limit && (is_above || count < 3);
            worker.blacklisted |= is_bad && (out + 1) * 2 <= count;
        });
    }

    /// Forgives old faults.
    pub(crate) fn forgive(&mut self, now: Duration, period: Duration, limit: u32) {
        let is_due =
            |worker: &&Worker| worker.faults > 0 && now.saturating_sub(worker.forgiven) >= period;
        let due: Vec<WorkerId> = self.all.values().filter(is_due).map(|worker| worker.id).collect();
        for id in due {
            self.change(id, |worker| {
                worker.forgiven = now;
                worker.faults -= 1;
                worker.blacklisted &= worker.faults >= limit;
            });
        }
    }

    /// Takes workers off the list, those with the fewest faults first, until it has at most half of those that are not drained: others may
    /// be gone or drained since they were listed.
    pub(crate) fn pardon(&mut self) {
        let counted = |worker: &&Worker| worker.liveness != Liveness::Expected && !worker.excluded;
        let count = self.all.values().filter(counted).count();
        let listed = self.all.values().filter(counted).filter(|worker| worker.blacklisted);
        let mut listed: Vec<(u32, WorkerId)> =
            listed.map(|worker| (worker.faults, worker.id)).collect();
        listed.sort_unstable();
        listed.truncate(listed.len().saturating_sub(count / 2));
        for (_, id) in listed {
            self.change(id, |worker| worker.blacklisted = false);
        }
    }

    /// Workers that may get work.
    pub(crate) fn usable_count(&self) -> usize {
        self.usable.worker_count
    }

    /// Slots of workers that may get work: the slots to share.
    pub(crate) fn usable_slots(&self) -> u64 {
        self.usable.slot_count
    }

    /// Machines of registered workers.
    pub(crate) fn host_count(&self) -> usize {
        self.by_host.len()
    }

    /// True if a worker is on this machine.
    pub(crate) fn is_at(&self, host: &str) -> bool {
        self.by_host.contains_key(host)
    }

    /// True if some worker has a free slot.
    pub(crate) fn has_free(&self) -> bool {
        !self.usable.by_free.is_empty()
    }

    /// Workers with free slots, of those to offer, most free first.
    pub(crate) fn free(&self, wanted: &FreeSlots) -> Vec<WorkerId> {
        let FreeSlots::At(ids) = wanted else {
            return self.usable.by_free.iter().map(|(_, id)| *id).collect();
        };
        let place = |worker: &Worker| (Reverse(worker.free()), worker.id);
        let mut free: Vec<(Reverse<u32>, WorkerId)> =
            ids.iter().filter_map(|id| self.all.get(id)).map(place).collect();
        free.sort_unstable();
        free.into_iter().filter(|(Reverse(free), _)| *free > 0).map(|(_, id)| id).collect()
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

    /// Queues news of map outputs, merged with earlier news that have not left yet.
    pub(crate) fn push_outputs(
        &mut self,
        id: WorkerId,
        job: JobId,
        new: &[MapOutput],
        gone: Option<AttemptId>,
    ) {
        let Some(worker) = self.all.get_mut(&id) else { return };
        if let Some(Action::MapOutputs { job: same, available, obsolete }) = worker.queue.last_mut()
            && *same == job
        {
            if gone.is_some() {
                available.retain(|output| Some(output.attempt) != gone);
            }
            available.extend_from_slice(new);
            obsolete.extend(gone);
            return;
        }
        let (available, obsolete) = (new.to_vec(), gone.into_iter().collect());
        worker.queue.push(Action::MapOutputs { job, available, obsolete });
    }

    /// The orders for a poll that acknowledges `received`: the unacknowledged orders again, or as many of the waiting ones as an answer
    /// takes; `None` if there are none.
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
            let later = worker.queue.split_off(answer::order_count(&worker.queue));
            let orders = std::mem::replace(&mut worker.queue, later);
            worker.in_flight = Some((worker.last_number, orders));
        }
        worker.in_flight.clone()
    }

    fn change(&mut self, id: WorkerId, change: impl FnOnce(&mut Worker)) {
        let Some(worker) = self.all.get_mut(&id) else { return };
        self.usable.remove(worker);
        change(worker);
        self.usable.add(worker);
    }
}

fn is_named(names: &BTreeSet<String>, host: &str, http_address: &str) -> bool {
    names.contains(host) || names.contains(http_address)
}

#[cfg(test)]
impl Workers {
    /// The incremental state must match a full recount of all workers.
    pub(crate) fn check(&self) {
        let mut usable = Usable::default();
        self.all.values().for_each(|worker| usable.add(worker));
        assert_eq!(usable, self.usable);
    }
}
