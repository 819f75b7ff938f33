//! An attempt that runs here, and the checks of its worker when it ends.

use std::io::{self, Read};

use protocol::phase::Phase;
use protocol::record::{PLACE_BYTES, RECORD_FILE};
use protocol::tracker::{AttemptState, Launch, Work};
use protocol::{AttemptId, RecordAt};

use crate::outputs::Outputs;
use crate::scratch::Place;

/// See the module.
pub(super) struct Running {
    pub(super) launch: Box<Launch>,
    /// Its directory in the job's directory.
    pub(super) place: Place,
    pub(super) runner: Option<u64>,
    pub(super) killing: bool,
    pub(super) reached: Reached,
}

/// The progress of an attempt.
#[derive(Clone, Copy, Default)]
pub(super) struct Reached {
    /// 0 to 1.
    pub(super) progress: f32,
    /// The current phase; `None` until its process reports one.
    pub(super) phase: Option<Phase>,
}

impl Running {
    /// The state that its runner reports, after a check of the output it names.
    pub(super) fn checked(
        &self,
        id: AttemptId,
        state: AttemptState,
        outputs: &Outputs,
    ) -> AttemptState {
        let AttemptState::MapDone { data_path, .. } = &state else {
            return state;
        };
        let program = &self.launch.program;
        match outputs.insert(id, &self.place, data_path, program.partition_count) {
            Ok(held) => {
                let segments = if program.sizes_wanted { &held.segments[..] } else { &[] };
                let partition_bytes = segments.iter().map(|segment| segment.raw).collect();
                AttemptState::MapDone { data_path: outputs.data_path(id), partition_bytes }
            }
            Err(diagnostics) => AttemptState::Failed { diagnostics },
        }
    }

    /// The record that a map was processing when it failed, as its process reported.
    pub(super) fn record(&self, id: AttemptId, state: &AttemptState) -> Option<RecordAt> {
        let Work::Map { split, .. } = &self.launch.work else { return None };
        if !matches!(state, AttemptState::Failed { .. }) {
            return None;
        }
        let read = || {
            let mut start = Vec::with_capacity(PLACE_BYTES);
            let file = self.place.dir.file(RECORD_FILE)?;
            file.take(PLACE_BYTES as u64).read_to_end(&mut start)?;
            Ok::<_, io::Error>(start)
        };
        let start = match read() {
            Ok(start) => start,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(attempt = %id, %error, "cannot read where a map was");
                }
                return None;
            }
        };
        RecordAt::decode(&start).filter(|record| record.failure(split).is_some())
    }
}
