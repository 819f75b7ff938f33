//! The history of a job as events, one JSON object a line, under Hadoop's event names.
//!
//! ```text
//! {"type":"HISTORY_VERSION","event":{"version":3},"crc32":"8 digits"}
//! {"type":"JOB_SUBMITTED","event":{"jobid":"job_…",…},"crc32":"…"}
//! …
//! {"type":"JOB_FINISHED","event":{…},"crc32":"…"}
//! {"type":"HISTORY_END","event":{"lines":27,"total":"8 digits"},"crc32":"…"}
//! ```
//!
//! Each line ends with the checksum of the rest of the line. Lines of version 1 have none. The last line of a job that is over has the number of the lines
//! before it and the CRC-32 of all of them, with their line ends; before version 3 there was no such line, and the event that ends the job is the last.
//!
//! The JobTracker writes it once, when a job is over, and never changes it; for a running job the JobTracker sends the events so far. `hanno job -history`
//! reads it. A reader skips events of a type it does not know and refuses a version it does not know. Times are milliseconds since the epoch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of these lines.
pub const VERSION: u16 = 3;

/// The version whose last line is the event that ends the job; still read.
pub const VERSION_WITHOUT_END: u16 = 2;

/// The version without checksums; still read.
pub const VERSION_UNCHECKED: u16 = 1;

const CHECKSUM_KEY: &str = ",\"crc32\":\"";
const CHECKSUM_END: &str = "\"}";
const CHECKSUM_DIGITS: usize = 8;

/// Adds its checksum to a line that is a JSON object.
pub fn seal(line: &mut Vec<u8>) {
    let crc = crc32fast::hash(line);
    line.pop();
    line.extend_from_slice(format!("{CHECKSUM_KEY}{crc:08x}{CHECKSUM_END}").as_bytes());
}

/// The result of checking a line's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seal {
    /// It has none.
    None,
    /// It matches.
    Fits,
    /// It does not.
    Broken,
}

/// Checks the checksum of a line; `line` comes without its line end.
pub fn check(line: &[u8]) -> Seal {
    let tail = CHECKSUM_KEY.len() + CHECKSUM_DIGITS + CHECKSUM_END.len();
    let Some((body, seal)) = line.len().checked_sub(tail).map(|at| line.split_at(at)) else {
        return Seal::None;
    };
    let digits = seal
        .strip_prefix(CHECKSUM_KEY.as_bytes())
        .and_then(|rest| rest.strip_suffix(CHECKSUM_END.as_bytes()));
    let Some(digits) = digits else { return Seal::None };
    let mut crc = crc32fast::Hasher::new();
    crc.update(body);
    crc.update(b"}");
    if digits == format!("{:08x}", crc.finalize()).as_bytes() { Seal::Fits } else { Seal::Broken }
}

/// All lines of a history so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Total {
    lines: u64,
    crc: u32,
}

impl Total {
    /// Adds a line, which comes without its line end.
    pub fn add(&mut self, line: &[u8]) {
        let mut crc = crc32fast::Hasher::new_with_initial(self.crc);
        crc.update(line);
        crc.update(b"\n");
        *self = Total { lines: self.lines + 1, crc: crc.finalize() };
    }

    /// The line that says that these are all ([`HistoryEvent::HistoryEnd`]), without its line end.
    pub fn end_line(&self) -> Vec<u8> {
        let Total { lines, crc } = self;
        let event = format!("{{\"lines\":{lines},\"total\":\"{crc:08x}\"}}}}");
        let mut line = [END_LINE, &event].concat().into_bytes();
        seal(&mut line);
        line
    }
}

/// How the lines of a history end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// By their end mark: they are all there.
    Marked,
    /// Without one: the job runs, or lines are missing.
    Open,
    /// By the event that ends the job, in a version without end marks.
    Event,
}

/// Checks the lines of a history one after the other.
#[derive(Clone, Copy, Default, Debug)]
pub struct LineCheck {
    /// Whether lines have checksums, once the first has been read.
    is_sealed: Option<bool>,
    has_end_mark: bool,
    total: Total,
    end: Option<End>,
}

impl LineCheck {
    /// True if the next line is as it was written, as far as its checksum can show.
    pub fn is_good(&mut self, line: &[u8]) -> bool {
        if self.is_sealed.is_none() {
            let unchecked = format!("\"version\":{VERSION_UNCHECKED}}}}}");
            let without_end = format!("\"version\":{VERSION_WITHOUT_END}}},");
            self.is_sealed = Some(!line.ends_with(unchecked.as_bytes()));
            self.has_end_mark = self.is_sealed == Some(true)
                && !String::from_utf8_lossy(line).contains(&without_end);
        }
        let is_sealed = self.is_sealed == Some(true);
        let is_good = check(line) == if is_sealed { Seal::Fits } else { Seal::None };
        // Nothing follows upon an end mark.
        let is_last = self.end != Some(End::Marked);
        let is_mark = self.has_end_mark && line.starts_with(END_LINE.as_bytes());
        let is_end = is_mark && self.total.end_line() == line;
        self.end = match is_mark {
            true => Some(End::Marked),
            false
                if !self.has_end_mark
                    && ENDS.iter().any(|end| line.starts_with(end.as_bytes())) =>
            {
                Some(End::Event)
            }
            false => None,
        };
        self.total.add(line);
        is_good && is_last && (is_end || !is_mark)
    }

    /// How the lines so far end.
    pub fn end(&self) -> End {
        self.end.unwrap_or(End::Open)
    }
}

const END_LINE: &str = "{\"type\":\"HISTORY_END\",\"event\":";
/// How lines of events begin that end a job.
const ENDS: [&str; 3] =
    ["{\"type\":\"JOB_FINISHED\",", "{\"type\":\"JOB_FAILED\",", "{\"type\":\"JOB_KILLED\","];

/// An event. Append only.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", content = "event", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HistoryEvent {
    /// First line.
    HistoryVersion {
        /// [`VERSION`].
        version: u16,
    },
    /// The job was accepted.
    JobSubmitted(JobSubmitted),
    /// Its tasks are known.
    JobInited(JobInited),
    /// The first attempt of a task starts.
    TaskStarted(TaskStarted),
    /// A map attempt starts.
    MapAttemptStarted(AttemptStarted),
    /// A reduce attempt starts.
    ReduceAttemptStarted(AttemptStarted),
    /// A map attempt won.
    MapAttemptFinished(AttemptEnded),
    /// A reduce attempt won.
    ReduceAttemptFinished(AttemptEnded),
    /// A map attempt counts against its task's limit.
    MapAttemptFailed(AttemptEnded),
    /// A reduce attempt counts against its task's limit.
    ReduceAttemptFailed(AttemptEnded),
    /// A map attempt was stopped.
    MapAttemptKilled(AttemptEnded),
    /// A reduce attempt was stopped.
    ReduceAttemptKilled(AttemptEnded),
    /// A task is done.
    TaskFinished(TaskFinished),
    /// The job succeeded.
    JobFinished(JobEnded),
    /// The job failed.
    JobFailed(JobEnded),
    /// The job was killed.
    JobKilled(JobEnded),
    /// Last line, once the job is over.
    HistoryEnd(HistoryEnd),
}

/// See [`HistoryEvent::HistoryEnd`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HistoryEnd {
    /// Lines before this one.
    pub lines: u64,
    /// CRC-32 of them with their line ends, as 8 hexadecimal digits.
    pub total: String,
}

/// See [`HistoryEvent::JobSubmitted`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSubmitted {
    /// The job.
    pub jobid: String,
    /// Its name.
    pub job_name: String,
    /// Who submitted it.
    pub user_name: String,
    /// When.
    pub submit_time: u64,
    /// Its queue.
    pub job_queue_name: String,
    /// Its priority at the time of writing.
    pub priority: String,
    /// Output directory.
    pub output: String,
    /// Arguments of its program.
    pub arguments: Vec<String>,
    /// Everything given with `-D`.
    pub properties: BTreeMap<String, String>,
}

/// See [`HistoryEvent::JobInited`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobInited {
    /// The job.
    pub jobid: String,
    /// Start of its first attempt, or its submission.
    pub launch_time: u64,
    /// Map tasks.
    pub total_maps: u32,
    /// Reduce tasks.
    pub total_reduces: u32,
}

/// See [`HistoryEvent::TaskStarted`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStarted {
    /// The task.
    pub taskid: String,
    /// `MAP` or `REDUCE`.
    pub task_type: String,
    /// Start of its first attempt.
    pub start_time: u64,
}

/// Start of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStarted {
    /// Its task.
    pub taskid: String,
    /// The attempt.
    pub attempt_id: String,
    /// When.
    pub start_time: u64,
    /// Machine of its worker.
    pub hostname: String,
    /// `host:port` of its worker.
    pub tracker_name: String,
}

/// End of an attempt.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptEnded {
    /// Its task.
    pub taskid: String,
    /// The attempt.
    pub attempt_id: String,
    /// When.
    pub finish_time: u64,
    /// Machine of its worker.
    pub hostname: String,
    /// `SUCCEEDED`, `FAILED` or `KILLED`.
    pub status: String,
    /// Why; empty if it succeeded.
    pub error: String,
}

/// See [`HistoryEvent::TaskFinished`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskFinished {
    /// The task.
    pub taskid: String,
    /// `MAP` or `REDUCE`.
    pub task_type: String,
    /// When.
    pub finish_time: u64,
    /// The attempt that counts.
    pub successful_attempt: String,
}

/// End of a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobEnded {
    /// The job.
    pub jobid: String,
    /// When.
    pub finish_time: u64,
    /// Map tasks done.
    pub finished_maps: u32,
    /// Reduce tasks done.
    pub finished_reduces: u32,
    /// Map attempts that failed.
    pub failed_maps: u32,
    /// Reduce attempts that failed.
    pub failed_reduces: u32,
    /// `SUCCEEDED`, `FAILED` or `KILLED`.
    pub job_status: String,
    /// Why it failed; empty otherwise.
    pub diagnostics: String,
    /// Sums over the attempts that count, by group and name.
    pub total_counters: BTreeMap<String, BTreeMap<String, u64>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(line: &str) -> Vec<u8> {
        let mut line = line.as_bytes().to_vec();
        seal(&mut line);
        line
    }

    #[test]
    fn a_line_of_which_any_bit_has_changed_is_found() {
        let lines = [
            "{\"type\":\"HISTORY_VERSION\",\"event\":{\"version\":2}}",
            "{\"type\":\"TASK_STARTED\",\"event\":{\"taskid\":\"t\",\"taskType\":\"MAP\",\"startTime\":5}}",
        ]
        .map(sealed);
        let all_good = |lines: &[Vec<u8>]| {
            let mut check = LineCheck::default();
            lines.iter().all(|line| check.is_good(line))
        };
        assert!(all_good(&lines));
        assert_eq!(
            lines[0],
            br#"{"type":"HISTORY_VERSION","event":{"version":2},"crc32":"0eb28a45"}"#
        );
        for (number, bit) in
            (0..2).flat_map(|number| (0..lines[number].len() * 8).map(move |bit| (number, bit)))
        {
            let mut flipped = lines.clone();
            flipped[number][bit / 8] ^= 1 << (bit % 8);
            assert!(!all_good(&flipped), "line {number} bit {bit}");
        }
        for cut in 0..lines[1].len() {
            assert!(!all_good(&[lines[0].clone(), lines[1][..cut].to_vec()]), "cut at {cut}");
        }
        let old = [r#"{"type":"HISTORY_VERSION","event":{"version":1}}"#, "{}"];
        assert!(all_good(&old.map(|line| line.as_bytes().to_vec())));
    }

    /// Lines with their ends, as a writer makes them.
    fn ended(version: u16, last: &str) -> Vec<Vec<u8>> {
        let first = format!("{{\"type\":\"HISTORY_VERSION\",\"event\":{{\"version\":{version}}}}}");
        let mut lines = vec![sealed(&first), sealed("{\"type\":\"X\"}"), sealed(last)];
        if version == VERSION {
            let mut total = Total::default();
            lines.iter().for_each(|line| total.add(line));
            lines.push(total.end_line());
        }
        lines
    }

    fn checked(lines: &[Vec<u8>]) -> (bool, End) {
        let mut check = LineCheck::default();
        let all_good = lines.iter().all(|line| check.is_good(line));
        (all_good, check.end())
    }

    #[test]
    fn a_history_without_one_of_its_lines_is_found() {
        let finished = r#"{"type":"JOB_FINISHED","event":{}}"#;
        let lines = ended(VERSION, finished);
        assert_eq!(
            lines[3],
            br#"{"type":"HISTORY_END","event":{"lines":3,"total":"6c532555"},"crc32":"001732e6"}"#
        );
        assert_eq!(checked(&lines), (true, End::Marked));
        for end in 0..lines.len() {
            assert_eq!(checked(&lines[..end]), (true, End::Open), "cut behind line {end}");
        }
        for number in 0..lines.len() - 1 {
            let mut fewer = lines.clone();
            fewer.remove(number);
            assert!(!checked(&fewer).0, "without line {number}");
            let mut more = lines.clone();
            more.insert(number, lines[number].clone());
            assert!(!checked(&more).0, "line {number} twice");
        }
        let longer = [&lines[..], &lines[3..]].concat();
        assert!(!checked(&longer).0, "two ends");
        let old = ended(VERSION_WITHOUT_END, finished);
        assert_eq!(checked(&old), (true, End::Event));
        assert_eq!(checked(&old[..2]), (true, End::Open));
    }
}
