//! Histories of jobs as files: `history/yyyy/mm/dd/<job>.jsonl` below the data directory, by the day of the job's end.
//!
//! The journal is the log of events that counts; a file is made from the state that the journal gives, once, when its job is over. One that
//! is missing after a crash is made at the next start.
//!
//! Invariants: a file is whole or not there; there are never more than the limit, the oldest jobs go first.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::JobId;
use protocol::history::HistoryEvent;

use crate::core::picture::Picture;
use crate::history_events::events;

/// Suffix of the files.
const SUFFIX: &str = "jsonl";
/// Everybody who can reach the data directory may read them.
const MODE: u32 = 0o640;

/// All files. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct History {
    root: PathBuf,
    count_max: usize,
    files: Arc<Mutex<BTreeMap<JobId, PathBuf>>>,
}

impl History {
    /// Finds the files below `data`.
    pub(crate) fn open(data: &Path, count_max: usize) -> io::Result<Self> {
        let root = data.join("history");
        fs::create_dir_all(&root)?;
        let mut files = BTreeMap::new();
        find(&root, DEPTH, &mut files)?;
        Ok(History { root, count_max, files: Arc::new(Mutex::new(files)) })
    }

    /// True if the history of a job is kept.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.files.lock().contains_key(&job)
    }

    /// The lines of a job that is over; `None` if they are not kept.
    pub(crate) fn read(&self, job: JobId) -> io::Result<Option<String>> {
        let Some(path) = self.files.lock().get(&job).cloned() else { return Ok(None) };
        match fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            // Removed by hand, or just now for newer ones.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a job that is over, and removes the oldest beyond the limit.
    pub(crate) fn write(&self, job: JobId, picture: &Picture) -> io::Result<()> {
        let day = day(picture.report.finished_ms);
        let directory = self.root.join(day);
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{job}.{SUFFIX}"));
        sys::fs::write_atomic(&path, lines(picture).as_bytes(), MODE)?;
        let surplus = {
            let mut files = self.files.lock();
            files.insert(job, path);
            let mut surplus = Vec::new();
            while files.len() > self.count_max {
                surplus.extend(files.pop_first().map(|(_, path)| path));
            }
            surplus
        };
        for path in surplus {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            // Days that are empty go too; the others refuse.
            let _ = path.ancestors().skip(1).take(DEPTH).try_for_each(fs::remove_dir);
        }
        Ok(())
    }
}

/// Directories from the root to a file.
const DEPTH: usize = 3;

/// Takes the files below a directory that is `depth` levels above them.
fn find(directory: &Path, depth: usize, files: &mut BTreeMap<JobId, PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if depth > 0 {
            if path.is_dir() {
                find(&path, depth - 1, files)?;
            }
            continue;
        }
        let job =
            path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        if let (Some(job), Some(SUFFIX)) =
            (job, path.extension().and_then(|suffix| suffix.to_str()))
        {
            files.insert(job, path);
        }
    }
    Ok(())
}

/// `yyyy/mm/dd` in UTC.
fn day(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.unwrap_or_default().strftime("%Y/%m/%d").to_string()
}

/// A job as the lines of its file.
pub(crate) fn lines(picture: &Picture) -> String {
    let line = |event: &HistoryEvent| {
        let mut line = serde_json::to_string(event).expect("events are plain values");
        line.push('\n');
        line
    };
    events(picture).iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::tests::picture;

    fn job(number: u32) -> JobId {
        JobId { cluster_start: 202_611_201_830, number }
    }

    #[test]
    fn the_newest_are_kept_and_found_again() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path(), 2).unwrap();
        let day_ms = 86_400_000;
        for number in 1..=3 {
            let picture = picture(Vec::new(), 1, u64::from(number) * day_ms);
            history.write(job(number), &picture).unwrap();
        }
        let again = History::open(data.path(), 2).unwrap();
        for kept in [&history, &again] {
            assert_eq!([1, 2, 3].map(|number| kept.has(job(number))), [false, true, true]);
        }
        let text = again.read(job(3)).unwrap().unwrap();
        assert!(text.starts_with("{\"type\":\"HISTORY_VERSION\",\"event\":{\"version\":1}}\n"));
        assert!(data.path().join("history/1970/01/04/job_202611201830_0003.jsonl").is_file());
        assert!(!data.path().join("history/1970/01/02").is_dir(), "an empty day is gone");
        assert_eq!(again.read(job(1)).unwrap(), None);
    }
}
