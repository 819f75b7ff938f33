//! How many jobs ended since this start, for monitors. Of what was replayed nothing counts: a counter begins with its process.

use protocol::jobs::JobState;

/// The counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) killed: u64,
}

impl Ends {
    /// Counts the end of a job in this state.
    pub(crate) fn note(&mut self, state: JobState) {
        match state {
            JobState::Succeeded => self.succeeded += 1,
            JobState::Failed => self.failed += 1,
            JobState::Killed => self.killed += 1,
            JobState::Running | JobState::Committing => {}
        }
    }
}
