//! Where the time of an attempt goes: [`Phase`]s as counters.
//!
//! Invariant: measuring costs nothing per record: the times are read where buffers are filled, sorted, written or merged.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use protocol::phase::{self, Phase};
use shuffle::MapOutputTimes;

use super::state::TaskState;

/// Share of a reduce that is done when its input is merged: copying and sorting are a third each.
pub const REDUCE_START_PROGRESS: f64 = 2.0 / 3.0;

/// The clock of this process, for [`shuffle`].
pub fn clock() -> Duration {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed()
}

/// Counts the time of a phase.
pub fn spent(state: &TaskState, phase: Phase, time: Duration) {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if micros > 0 {
        state.add_to(phase::GROUP, phase.counter(), micros);
    }
}

/// Counts the phases of a map that took `whole`; the time that is neither reading nor the engine's is the map function's own.
pub(crate) fn of_map(state: &TaskState, whole: Duration, read: Duration, times: MapOutputTimes) {
    let MapOutputTimes { sort, spill, merge } = times;
    let map = whole.saturating_sub(read + sort + spill + merge);
    let all = [
        (Phase::Read, read),
        (Phase::Map, map),
        (Phase::Sort, sort),
        (Phase::Spill, spill),
        (Phase::Merge, merge),
    ];
    all.into_iter().for_each(|(phase, time)| spent(state, phase, time));
}
