//! Where a journal lives and the limits it keeps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::disk::RealDisk;
use crate::image;
use crate::places::Places;
use crate::sector::STREAM_BYTES_MAX;
use crate::store::SledPlace;
use crate::threads::Limits;

/// Settings of one journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its directory; created if missing. One journal per directory.
    pub dir: PathBuf,
    /// Further directories, each with the log in full and the images, from which everything can be restored. Default: none. One on
    /// another disk lets the journal survive the loss of a disk; each costs one sync per batch. One that is added later is filled at
    /// the next start.
    pub mirrors: Vec<PathBuf>,
    /// Size at which a log segment ends, in bytes. Default 64 MiB: some minutes of full load, small enough that old records go in
    /// pieces and that a start reads it in a moment.
    pub segment_bytes_max: u64,
    /// Most records in one batch. Default 1024: where the cost of the sync has become negligible.
    pub batch_records_max: usize,
    /// Most bytes in one batch. Default 256 KiB: about a millisecond of a slow disk. One larger record
    /// is a batch of its own.
    pub batch_bytes_max: usize,
    /// Records after which an image is exported. Default 1,000,000: rebuilding sled then replays a few
    /// seconds of log. A checkpoint of more than four million rows gets one after a quarter as many records.
    pub image_edits_max: u64,
    /// Time after which an image is exported if there is anything new. Default one hour.
    pub image_interval: Duration,
    /// Bytes of records that wait for the disk before `append` blocks. Default 64 MiB: a second of
    /// full load, and bounded memory while the disk is stuck.
    pub queue_bytes_max: u64,
    /// sled's cache, in bytes. Default 64 MiB: the checkpoint is written after the log and read only at start-up, so it needs no more.
    pub cache_bytes: u64,
}

impl Options {
    /// The defaults for a journal in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Options {
        Options {
            dir: dir.into(),
            mirrors: Vec::new(),
            segment_bytes_max: 64 << 20,
            batch_records_max: 1024,
            batch_bytes_max: 256 << 10,
            image_edits_max: 1_000_000,
            image_interval: Duration::from_secs(3600),
            queue_bytes_max: 64 << 20,
            cache_bytes: 64 << 20,
        }
    }

    /// With a mirror in `name` below each of `parents`.
    ///
    /// # Errors
    /// If a path is relative and the working directory cannot be found.
    pub fn with_mirrors(mut self, parents: &[PathBuf], name: &str) -> std::io::Result<Options> {
        for parent in parents {
            self.mirrors.push(std::path::absolute(parent)?.join(name));
        }
        Ok(self)
    }

    pub(crate) fn sled_place(&self) -> SledPlace {
        SledPlace::new(self.dir.clone(), self.cache_bytes)
    }

    pub(crate) fn places(&self) -> Places {
        Places {
            disk: Arc::new(RealDisk),
            kv: Arc::new(self.sled_place()),
            dir: self.dir.clone(),
            mirrors: self.mirrors.clone(),
            nonce: rand::random(),
            epoch_min: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs()),
            segment_bytes_max: self.segment_bytes_max,
            section_bytes: image::SECTION_BYTES,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            batch_records_max: self.batch_records_max.max(1),
            batch_bytes_max: self.batch_bytes_max.min(STREAM_BYTES_MAX),
            queue_bytes_max: self.queue_bytes_max.max(1),
            image_edits_max: self.image_edits_max.max(1),
            image_interval: self.image_interval,
        }
    }
}

/// Whether directories for [`Options::with_mirrors`] are each named once, and each has a name.
pub fn mirrors_are_sound(mirrors: &[PathBuf]) -> bool {
    let names = mirrors.iter().map(|dir| std::path::absolute(dir).unwrap_or_default());
    let distinct: std::collections::BTreeSet<PathBuf> = names.collect();
    distinct.len() == mirrors.len() && !distinct.contains(Path::new(""))
}

impl From<&Path> for Options {
    fn from(dir: &Path) -> Options {
        Options::new(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mirror_is_named_once() {
        for (names, are_sound) in [
            (&[][..], true),
            (&["/a", "/b"][..], true),
            (&["/a", "/a/"][..], false),
            (&["a", "./a"][..], false),
            (&[""][..], false),
        ] {
            let mirrors: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            assert_eq!(mirrors_are_sound(&mirrors), are_sound, "{names:?}");
        }
    }
}
