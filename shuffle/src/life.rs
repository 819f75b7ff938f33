//! The sign by which whoever watches from another thread sees that work goes on.
//!
//! Invariant: showing life costs as much as a load, cheap enough for every record, and no thread's sign undoes another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A sign of life. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Life(Arc<AtomicBool>);

impl Life {
    /// Shows that work goes on.
    #[inline]
    pub fn show(&self) {
        // Threads that show it all the time would take the cache line from each other by storing.
        if !self.0.load(Ordering::Relaxed) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// True if life was shown since the last look.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::codec::Codec;
    use crate::output::{MapOutput, MapOutputOptions, no_clock};
    use crate::reduce::{ReduceInput, ReduceOptions};
    use crate::segment::SegmentSource;
    use crate::writer::MapOutputWriter;

    /// An output of some spills.
    fn written(dir: &Path, name: &str, life: &Life) -> MapOutput {
        let options = MapOutputOptions {
            partitions: 1,
            dir: dir.to_owned(),
            name: name.to_owned(),
            memory_bytes_max: 4 << 10,
            merge_factor: 2,
            codec: Codec::None,
            partition_seed: 0,
            sync: false,
        };
        let mut writer = MapOutputWriter::new(options).unwrap().watched(no_clock, life.clone());
        let mut spills = 0;
        for number in 0..1000u32 {
            writer.emit(0, &number.to_be_bytes(), b"value").unwrap();
            spills += u32::from(life.take());
        }
        assert!(spills > 2, "{spills}");
        writer.finish().unwrap()
    }

    #[test]
    fn spills_and_merges_and_all_that_is_read_show_life() {
        let scratch = tempfile::tempdir().unwrap();
        let life = Life::default();
        let source = |name| {
            let output = written(scratch.path(), name, &life);
            assert!(life.take(), "the last merge");
            SegmentSource::Path { path: output.data, offset: 0, stored: output.segments[0].stored }
        };
        let sources = ["a", "b", "c"].map(source).into();
        let options = ReduceOptions {
            dir: scratch.path().to_owned(),
            name: "reduce".to_owned(),
            memory_bytes_max: 1 << 20,
            merge_factor: 2,
            codec: Codec::None,
            group_prefix: Some(|_| 0),
        };
        let mut input = ReduceInput::with_life(sources, options, life.clone()).unwrap();
        assert!(input.stats().merge_passes > 0 && life.take());
        assert!(input.next_group().unwrap() && life.take());
        while input.next_value().unwrap().is_some() {
            assert!(life.take());
        }
        assert_eq!(input.stats().records, 3000);
    }
}
