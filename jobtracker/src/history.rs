//! Histories of jobs as files: `history/yyyy/mm/dd/<job>.jsonl` below the data directory, by the day of the job's end.
//!
//! The journal is the authoritative log of events. Each file is made once, when its job is over, from the state that the journal gives. A
//! file that is missing after a crash is made at the next start; one that could not be written is tried again.
//!
//! Invariants: a file is complete or absent; there are never more files than the limit; the files of jobs that ended first are removed
//! first; no file is made that would be removed at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::JobId;
use protocol::history::{End, HistoryEvent, LineCheck};

use crate::core::rights::{Operation, Whose};
use crate::core::views::Picture;
use crate::history_events::write_lines;

/// Suffix of the files.
const SUFFIX: &str = "jsonl";
/// The owner writes the files, the owner's group can read them.
const MODE: u32 = 0o640;
/// The line that names the job's owner.
const SUBMITTED_LINE: u64 = 2;
/// Pause after a failed write: a disk is seldom emptied faster.
const RETRY_PAUSE: Duration = Duration::from_secs(60);

/// All files. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct History {
    root: PathBuf,
    count_max: usize,
    index: Arc<Mutex<Index>>,
}

/// The existing files. A day is `yyyy/mm/dd`, so days sort as text.
#[derive(Debug, Default)]
struct Index {
    days: BTreeMap<JobId, String>,
    oldest_first: BTreeSet<(String, JobId)>,
}

impl Index {
    fn insert(&mut self, day: String, job: JobId) {
        self.days.insert(job, day.clone());
        self.oldest_first.insert((day, job));
    }

    fn pop_oldest(&mut self) -> Option<(String, JobId)> {
        let (day, job) = self.oldest_first.pop_first()?;
        self.days.remove(&job);
        Some((day, job))
    }
}

impl History {
    /// Finds the files below `data`.
    pub(crate) fn open(data: &Path, count_max: usize) -> io::Result<Self> {
        let root = data.join("history");
        sys::fs::create_private_dir(&root)?;
        let mut index = Index::default();
        find(&root, "", DEPTH, &mut index)?;
        Ok(History { root, count_max, index: Arc::new(Mutex::new(index)) })
    }

    /// Of a simulation: none are kept.
    #[cfg(feature = "sim")]
    pub(crate) fn none() -> Self {
        History { root: PathBuf::new(), count_max: 0, index: Arc::default() }
    }

    /// True if the history of a finished job must be written: there is none, and it would stay.
    pub(crate) fn wants(&self, job: JobId, finished_ms: u64) -> bool {
        self.is_wanted(job, &day(finished_ms))
    }

    fn is_wanted(&self, job: JobId, day: &str) -> bool {
        let index = self.index.lock();
        let is_newer = |(oldest, first): &(String, JobId)| (oldest.as_str(), *first) < (day, job);
        let has_room = index.days.len() < self.count_max;
        !index.days.contains_key(&job)
            && (has_room || index.oldest_first.first().is_some_and(is_newer))
    }

    /// The file of a finished job; `None` if it is not kept.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] names the file and the damaged line; otherwise the system's error.
    pub(crate) fn file(&self, job: JobId) -> io::Result<Option<KeptFile>> {
        let Some(day) = self.index.lock().days.get(&job).cloned() else { return Ok(None) };
        let path = self.path(&day, job);
        match File::open(&path) {
            Ok(file) => KeptFile::open(file, path).map(Some),
            // Removed by hand, or just now for newer ones.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the history of a finished job, if it is wanted, and removes the oldest beyond the limit.
    pub(crate) fn write(&self, picture: &Picture) -> io::Result<()> {
        let (job, day) = (picture.id, day(picture.report.finished_ms));
        if !self.is_wanted(job, &day) {
            return Ok(());
        }
        let path = self.path(&day, job);
        path.parent().map_or(Ok(()), sys::fs::create_private_dir)?;
        sys::fs::write_atomic_with(&path, MODE, |out| write_lines(picture, out))?;
        let surplus: Vec<(String, JobId)> = {
            let mut index = self.index.lock();
            index.insert(day, job);
            let count = index.days.len().saturating_sub(self.count_max);
            (0..count).filter_map(|_| index.pop_oldest()).collect()
        };
        for (day, job) in surplus {
            self.remove(&self.path(&day, job));
        }
        Ok(())
    }

    fn path(&self, day: &str, job: JobId) -> PathBuf {
        self.root.join(day).join(format!("{job}.{SUFFIX}"))
    }

    /// Removes a file. If that fails, the next start finds the file again.
    fn remove(&self, path: &Path) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "cannot remove an old history");
            }
            _ => {}
        }
        // Empty days are removed too; removing the others fails.
        let _ = path.ancestors().skip(1).take(DEPTH).try_for_each(fs::remove_dir);
    }
}

/// Jobs whose histories must be written, one at a time: a start can find a thousand missing.
#[derive(Debug, Default)]
pub(crate) struct Due {
    jobs: VecDeque<JobId>,
    is_writing: bool,
    not_before: Option<Instant>,
}

impl Due {
    /// Adds a job.
    pub(crate) fn push(&mut self, job: JobId) {
        self.jobs.push_back(job);
    }

    /// The job to write now, if any; call [`Due::written`] afterwards.
    pub(crate) fn next(&mut self, now: Instant) -> Option<JobId> {
        if self.is_writing || self.not_before.is_some_and(|time| now < time) {
            return None;
        }
        let job = self.jobs.pop_front()?;
        self.is_writing = true;
        Some(job)
    }

    /// A write is over. A failed one is retried, after a pause for all, because they share a disk.
    pub(crate) fn written(&mut self, job: JobId, is_kept: bool, now: Instant) {
        self.is_writing = false;
        if !is_kept {
            self.jobs.push_back(job);
            self.not_before = Some(now + RETRY_PAUSE);
        }
    }
}

/// The file of a finished job.
pub(crate) struct KeptFile {
    whose: Whose,
    lines: Lines,
}

impl KeptFile {
    /// Reads the beginning, up to the line that names the job's owner.
    fn open(file: File, path: PathBuf) -> io::Result<Self> {
        let (file, check) = (BufReader::new(file), LineCheck::default());
        let mut lines = Lines { file, path, check, number: 0, line: Vec::new() };
        let mut whose = None;
        while lines.number < SUBMITTED_LINE
            && let Some(line) = lines.read()?
        {
            whose = submitted(line);
        }
        let whose = whose.ok_or_else(|| lines.damaged(SUBMITTED_LINE))?;
        Ok(KeptFile { whose, lines })
    }

    /// Who may view it.
    pub(crate) fn whose(&self) -> &Whose {
        &self.whose
    }

    /// The file from its start, if every line is as it was written and none is missing. Only jobs that are over have files, so one that ends without the mark
    /// of its end, or in a version without such marks without the event that ends the job, was cut.
    ///
    /// # Errors
    /// As for [`History::file`].
    pub(crate) fn checked(mut self) -> io::Result<File> {
        while self.lines.read()?.is_some() {}
        if self.lines.check.end() == End::Open {
            let Lines { path, number, .. } = &self.lines;
            let what = format!("{} is cut: what followed line {number} is missing", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let mut file = self.lines.file.into_inner();
        file.rewind()?;
        Ok(file)
    }
}

/// Lines of a file, checked one after the other.
struct Lines {
    file: BufReader<File>,
    path: PathBuf,
    check: LineCheck,
    /// Number of the last line read, from 1.
    number: u64,
    /// The line; reused.
    line: Vec<u8>,
}

impl Lines {
    /// The next line without its end; `None` after the last.
    fn read(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        if self.file.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        // Each line was written with its end.
        match self.line.strip_suffix(b"\n") {
            Some(text) if self.check.is_good(text) => Ok(Some(text)),
            _ => Err(self.damaged(self.number)),
        }
    }

    fn damaged(&self, number: u64) -> io::Error {
        let what = format!("{} is damaged in line {number}", self.path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

/// Who may view a job, from the line of its submission.
fn submitted(line: &[u8]) -> Option<Whose> {
    match serde_json::from_slice(line).ok()? {
        HistoryEvent::JobSubmitted(event) => {
            let of = (event.user_name.as_str(), event.job_queue_name.as_str());
            Some(Whose::new(of, &event.properties, Operation::View))
        }
        _ => None,
    }
}

/// Directories from the root to a file.
const DEPTH: usize = 3;

/// Collects the files below a directory that is `depth` levels above them; `day` is the part of the day from the names of directories so
/// far.
fn find(directory: &Path, day: &str, depth: usize, index: &mut Index) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if depth > 0 {
            if path.is_dir() {
                let day = if day.is_empty() { name.to_owned() } else { format!("{day}/{name}") };
                find(&path, &day, depth - 1, index)?;
            }
        } else if let Some((job, SUFFIX)) = name.rsplit_once('.')
            && let Ok(job) = job.parse()
        {
            index.insert(day.to_owned(), job);
        }
    }
    Ok(())
}

/// `yyyy/mm/dd` in UTC.
fn day(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.unwrap_or_default().strftime("%Y/%m/%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::tests::picture;
    use protocol::jobs::JobState;
    use std::io::Read;

    const DAY_MS: u64 = 86_400_000;

    fn job(number: u32) -> JobId {
        JobId { cluster_start: 202_611_201_830, number }
    }

    fn write(history: &History, number: u32, day: u64) -> io::Result<()> {
        let mut picture = picture(Vec::new(), 1, day * DAY_MS);
        picture.id = job(number);
        history.write(&picture)
    }

    fn text(history: &History, number: u32) -> Option<String> {
        let mut text = String::new();
        let mut file = history.file(job(number)).unwrap()?.checked().unwrap();
        file.read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn the_newest_are_kept_and_found_again() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path(), 2).unwrap();
        for number in 1..=3 {
            write(&history, number, u64::from(number)).unwrap();
        }
        let again = History::open(data.path(), 2).unwrap();
        for kept in [&history, &again] {
            assert_eq!([1, 2, 3].map(|number| text(kept, number).is_some()), [false, true, true]);
        }
        let text = text(&again, 3).unwrap();
        assert!(
            text.starts_with("{\"type\":\"HISTORY_VERSION\",\"event\":{\"version\":3},\"crc32\":")
        );
        assert!(data.path().join("history/1970/01/04/job_202611201830_0003.jsonl").is_file());
        assert!(!data.path().join("history/1970/01/02").is_dir(), "an empty day is gone");
    }

    /// The end of a job counts, not its beginning.
    #[test]
    fn a_long_job_keeps_its_history_and_one_that_would_go_at_once_is_not_written() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path(), 2).unwrap();
        for (number, day) in [(2, 2), (3, 3), (1, 4)] {
            assert!(history.wants(job(number), day * DAY_MS));
            write(&history, number, day).unwrap();
        }
        let again = History::open(data.path(), 2).unwrap();
        for kept in [&history, &again] {
            assert_eq!([1, 2, 3].map(|number| text(kept, number).is_some()), [true, false, true]);
            assert!(!kept.wants(job(2), 2 * DAY_MS) && !kept.wants(job(3), 3 * DAY_MS));
            write(kept, 2, 2).unwrap();
            assert!(text(kept, 3).is_some() && text(kept, 2).is_none());
        }
        let none = History::open(&data.path().join("none"), 0).unwrap();
        write(&none, 1, 1).unwrap();
        assert!(text(&none, 1).is_none());
    }

    #[test]
    fn a_damaged_file_is_named_with_its_line_and_the_others_are_read() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path(), 2).unwrap();
        write(&history, 1, 1).unwrap();
        write(&history, 2, 1).unwrap();
        let path = data.path().join("history/1970/01/02/job_202611201830_0001.jsonl");
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).filter(|at| good[*at] != b'\n') {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&path, &bad).unwrap();
            let error = history.file(job(1)).and_then(|kept| kept.unwrap().checked()).unwrap_err();
            let line = 1 + good[..at].iter().filter(|&&byte| byte == b'\n').count();
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert!(text.contains("is damaged in line"), "{text}");
            // After a flip that makes a line end, the error names the line that was cut.
            assert!(bad[at] == b'\n' || text.ends_with(&format!("line {line}")), "{at}: {text}");
            assert!(self::text(&history, 2).is_some());
        }
        let (last, rest) = good.split_last().unwrap();
        fs::write(&path, [&rest[..rest.len() - 1], b" ", &[*last]].concat()).unwrap();
        let kept = history.file(job(1)).unwrap().unwrap();
        assert!(kept.checked().is_err(), "whose it is, is known before all of it is read");
    }

    #[test]
    fn a_file_that_is_cut_anywhere_is_not_told_as_whole() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path(), 2).unwrap();
        write(&history, 1, 1).unwrap();
        let path = data.path().join("history/1970/01/02/job_202611201830_0001.jsonl");
        let checked = || {
            let kept = history.file(job(1)).and_then(|kept| kept.unwrap().checked());
            kept.map(drop).map_err(|error| error.to_string())
        };
        let new = fs::read(&path).unwrap();
        let old: [&[u8]; 2] = [
            include_bytes!("../testdata/history-v1.jsonl"),
            include_bytes!("../testdata/history-v2.jsonl"),
        ];
        for whole in [&new[..], old[0], old[1]] {
            fs::write(&path, whole).unwrap();
            assert_eq!(checked(), Ok(()));
            for end in 0..whole.len() {
                fs::write(&path, &whole[..end]).unwrap();
                let error = checked().unwrap_err();
                assert!(error.contains(&path.display().to_string()), "{error}");
            }
            let line_end = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n');
            fs::write(&path, &whole[..=line_end.unwrap()]).unwrap();
            let error = checked().unwrap_err();
            assert!(error.contains("is cut: what followed line"), "{error}");
        }
    }

    #[test]
    fn a_write_that_failed_leaves_nothing_and_works_later() {
        let data = tempfile::tempdir().unwrap();
        let history = History::open(data.path(), 2).unwrap();
        let obstacle = data.path().join("history/1970");
        fs::write(&obstacle, "").unwrap();
        assert!(write(&history, 1, 1).is_err());
        assert!(history.wants(job(1), DAY_MS));
        fs::remove_file(&obstacle).unwrap();
        write(&history, 1, 1).unwrap();
        assert!(text(&history, 1).is_some());
    }

    #[test]
    fn one_is_written_at_a_time_and_a_failed_one_again_after_a_pause() {
        let (mut due, now) = (Due::default(), Instant::now());
        assert_eq!(due.next(now), None);
        (1..=3).for_each(|number| due.push(job(number)));
        assert_eq!((due.next(now), due.next(now)), (Some(job(1)), None));
        due.written(job(1), true, now);
        assert_eq!(due.next(now), Some(job(2)));
        due.written(job(2), false, now);
        assert_eq!(due.next(now + RETRY_PAUSE / 2), None);
        let later = now + RETRY_PAUSE;
        for number in [3, 2] {
            assert_eq!(due.next(later), Some(job(number)));
            due.written(job(number), true, later);
        }
        assert_eq!(due.next(later), None);
    }

    #[test]
    fn a_state_is_written_as_hadoop_does_and_read_as_it_was_once_written() {
        for (state, name, former) in [
            (JobState::Running, "\"RUNNING\"", "\"Running\""),
            (JobState::Committing, "\"COMMITTING\"", "\"Committing\""),
            (JobState::Succeeded, "\"SUCCEEDED\"", "\"Succeeded\""),
            (JobState::Failed, "\"FAILED\"", "\"Failed\""),
            (JobState::Killed, "\"KILLED\"", "\"Killed\""),
        ] {
            assert_eq!(serde_json::to_string(&state).unwrap(), name);
            for text in [name, former] {
                assert_eq!(serde_json::from_str::<JobState>(text).unwrap(), state);
            }
        }
    }
}
