//! What an attempt leaves in its directory when it ends, read and taken through the directory's descriptor.

use std::io::{self, Read};

use protocol::record::{PLACE_BYTES, RECORD_FILE};
use protocol::{AttemptId, RecordAt};

use crate::outputs::Outputs;
use crate::scratch::OpenDir;

/// Takes the output that a map reports. Returns the bytes of its partitions before compression.
pub(super) fn take_output(
    id: AttemptId,
    place: &OpenDir,
    data_path: &str,
    partition_count: u32,
    outputs: &Outputs,
) -> Result<Vec<u64>, String> {
    let segments = outputs.insert(id, place, data_path, partition_count)?;
    Ok(segments.iter().map(|segment| segment.raw).collect())
}

/// The record that a map was processing, as its process reported.
pub(super) fn read_record(id: AttemptId, place: &OpenDir) -> Option<RecordAt> {
    let read = || {
        let mut start = Vec::with_capacity(PLACE_BYTES);
        let file = place.dir.file(RECORD_FILE)?;
        file.take(PLACE_BYTES as u64).read_to_end(&mut start)?;
        Ok::<_, io::Error>(start)
    };
    match read() {
        Ok(start) => RecordAt::decode(&start),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(attempt = %id, %error, "cannot read where a map was");
            }
            None
        }
    }
}
