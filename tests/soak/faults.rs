//! Carries out a step of the schedule on a rig, and waits until everything is back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::schedule::{Kind, Step};
use crate::support::load::{Flaw, Problem};
use crate::support::report::live_count;
use crate::support::rig::Rig;
use crate::support::signal::Signal;
use crate::support::{Cluster, processes, wait};

/// Time for everything to be back after a step.
const BACK_MAX: Duration = Duration::from_secs(120);
/// A power cut among stops comes at this part of the shortest.
const CUT_AFTER: u32 = 2;

/// Faults so far, by kind.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FaultCounts {
    pub(super) kills: u64,
    pub(super) stops: u64,
    pub(super) terminations: u64,
    pub(super) cuts: u64,
}

/// Carries out a step. `trouble` ends its pauses: what has failed already need not go on.
pub(super) fn carry_out(
    rig: &mut Rig,
    step: &Step,
    trouble: &Signal,
    counts: &mut FaultCounts,
) -> Result<(), Problem> {
    if trouble.wait_for(1, step.pause) {
        return Ok(());
    }
    println!("  {step:?}");
    let before = begin(rig.cluster(), step, counts);
    let shortest = step.faults.iter().map(|(_, kind)| stopped(*kind)).min().unwrap_or_default();
    if step.cut {
        trouble.wait_for(1, shortest / CUT_AFTER);
        rig.cut(|| ());
        counts.cuts += 1;
    } else {
        end_stops(step, &before, trouble);
    }
    wait_whole(rig.cluster(), step, &before)
}

fn stopped(kind: Kind) -> Duration {
    match kind {
        Kind::Stop(time) => time,
        Kind::Kill | Kind::Terminate => Duration::ZERO,
    }
}

/// Sends all signals; the processes that got them.
fn begin(cluster: &Cluster, step: &Step, counts: &mut FaultCounts) -> BTreeMap<String, u32> {
    let mut before = BTreeMap::new();
    for (daemon, kind) in &step.faults {
        let pid = cluster.pid(daemon).expect("a daemon that is there");
        match kind {
            Kind::Kill => sys::process::kill(pid).unwrap(),
            Kind::Stop(_) => processes::pause(pid),
            Kind::Terminate => sys::process::terminate(pid).unwrap(),
        }
        *match kind {
            Kind::Kill => &mut counts.kills,
            Kind::Stop(_) => &mut counts.stops,
            Kind::Terminate => &mut counts.terminations,
        } += 1;
        before.insert(daemon.clone(), pid);
    }
    before
}

/// Lets who was stopped go on, each at its time.
fn end_stops(step: &Step, before: &BTreeMap<String, u32>, trouble: &Signal) {
    let mut stops: Vec<(Duration, u32)> =
        step.faults.iter().map(|(daemon, kind)| (stopped(*kind), before[daemon])).collect();
    stops.sort_unstable();
    let start = Instant::now();
    for (time, pid) in stops.into_iter().filter(|(time, _)| !time.is_zero()) {
        trouble.wait_for(1, time.saturating_sub(start.elapsed()));
        sys::process::resume(pid).unwrap();
    }
}

/// Waits until who ended was started again, and everybody is heard of by the masters.
fn wait_whole(
    cluster: &Cluster,
    step: &Step,
    before: &BTreeMap<String, u32>,
) -> Result<(), Problem> {
    let is_back = |(daemon, kind): &(String, Kind)| {
        let now = cluster.pid(daemon);
        now.is_some() && (matches!(kind, Kind::Stop(_)) || now != before.get(daemon).copied())
    };
    let (datanodes, workers) = (cluster.options.datanodes, cluster.options.workers as usize);
    let is_whole = wait::until(BACK_MAX, || {
        (step.cut || step.faults.iter().all(is_back))
            && live_count(cluster) == datanodes as usize
            && active_workers(cluster) == workers
    });
    if is_whole {
        return Ok(());
    }
    let live = (live_count(cluster), active_workers(cluster));
    Err((
        Flaw::Stuck,
        format!("after {step:?}: {live:?} DataNodes and workers within {BACK_MAX:?}"),
    ))
}

fn active_workers(cluster: &Cluster) -> usize {
    cluster.hanno(&["job", "-list-active-trackers"]).stdout_text().lines().count()
}
