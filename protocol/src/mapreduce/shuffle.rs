//! Map outputs from a worker to the reduces that need them:
//! `GET http://worker/mapOutput?job=<job>&reduce=<n>&count=<k>&map=<attempt>,<attempt>,…`, signed, over kept-alive connections.
//!
//! The body answers the attempts in the order of the request, and for each of them the partitions from `n` (one partition without `count`):
//!
//! ```text
//! one frame (crate::frame) holding a SegmentAnswer
//! if it is `Segment`: exactly `stored` bytes, the segment as it lies in the worker's file
//! if it is `Lost`:    nothing, and nothing of the attempt's other partitions
//! ```
//!
//! The header frame is checked by its own CRC and the segment by the checksums of its blocks, so no other checksum is needed. The status is 200 as soon as the
//! request is well-formed; an output that cannot be served is [`SegmentAnswer::Lost`].

use std::collections::HashSet;
use std::fmt::Write;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, JobId};

/// Path of the service.
pub const ROUTE: &str = "/mapOutput";
/// Most map attempts in one request, as in Hadoop; keeps the request line short and a retry cheap.
pub const MAPS_PER_REQUEST_MAX: usize = 20;
/// Longest body of a header frame that a fetcher accepts; diagnostics are cut to fit well inside.
pub const ANSWER_BYTES_MAX: usize = 4 << 10;

/// The wanted segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchRequest {
    /// The job.
    pub job: JobId,
    /// Partition numbers, at least one.
    pub partitions: Range<u32>,
    /// Attempts of maps, or of tasks of a round ([`crate::rounds`]): 1 to [`MAPS_PER_REQUEST_MAX`], all of `job`.
    pub maps: Vec<AttemptId>,
}

/// The header before each segment of the body.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SegmentAnswer {
    /// `stored` bytes follow.
    Segment(SegmentHeader),
    /// The output is not here or cannot be read; nothing follows for it.
    Lost {
        /// The requested attempt.
        attempt: AttemptId,
        /// For people.
        diagnostics: String,
    },
}

/// The header of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SegmentHeader {
    /// The attempt that made it.
    pub attempt: AttemptId,
    /// Partition number.
    pub reduce: u32,
    /// Bytes that follow.
    pub stored: u64,
    /// Bytes of its blocks before compression.
    pub raw: u64,
    /// Records in it.
    pub records: u64,
}

impl FetchRequest {
    /// Path and query.
    pub fn to_target(&self) -> String {
        let Range { start, end } = self.partitions;
        let mut target = format!("{ROUTE}?job={}&reduce={start}", self.job);
        if end - start > 1 {
            write!(target, "&count={}", end - start).expect("writing to a String cannot fail");
        }
        target.push_str("&map=");
        for (position, map) in self.maps.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(target, "{comma}{map}").expect("writing to a String cannot fail");
        }
        target
    }

    /// Reads the query of a request.
    ///
    /// # Errors
    /// The rule that the query breaks, as a phrase.
    pub fn parse_query(query: &str) -> Result<Self, &'static str> {
        let (mut job, mut first, mut count, mut maps) = (None, None, None, Vec::new());
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some(("job", text)) if job.is_none() => job = Some(text.parse::<JobId>().ok()),
                Some(("reduce", text)) if first.is_none() => first = Some(text.parse::<u32>().ok()),
                Some(("count", text)) if count.is_none() => {
                    count = Some(text.parse::<u32>().ok().filter(|count| *count > 0))
                }
                Some(("map", text)) if maps.is_empty() => {
                    for attempt in text.split(',').take(MAPS_PER_REQUEST_MAX + 1) {
                        maps.push(
                            attempt.parse::<AttemptId>().map_err(|_| "a map is no attempt id")?,
                        );
                    }
                }
                _ => return Err("an unknown parameter, or one that is given twice"),
            }
        }
        let job = job.flatten().ok_or("job is missing or no job id")?;
        let first = first.flatten().ok_or("reduce is missing or no number")?;
        let count = count.unwrap_or(Some(1)).ok_or("count is no number above 0")?;
        let end = first.checked_add(count).ok_or("there are no such partitions")?;
        if maps.is_empty() || maps.len() > MAPS_PER_REQUEST_MAX {
            return Err("map must name 1 to 20 attempts");
        }
        if maps.iter().any(|map| map.task.job != job) {
            return Err("an attempt is of another job");
        }
        let different: HashSet<_> = maps.iter().collect();
        if different.len() < maps.len() {
            return Err("an attempt is named twice");
        }
        Ok(FetchRequest { job, partitions: first..end, maps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskId, TaskKind, wire};

    fn attempt(index: u32) -> AttemptId {
        let job = JobId { cluster_start: 202611201830, number: 7 };
        AttemptId { task: TaskId { job, kind: TaskKind::Map, index }, number: 1 }
    }

    #[test]
    fn requests_read_as_they_were_written() {
        let job = attempt(0).task.job;
        let mut request =
            FetchRequest { job, partitions: 3..4, maps: vec![attempt(0), attempt(12)] };
        let target = request.to_target();
        assert_eq!(
            target,
            "/mapOutput?job=job_202611201830_0007&reduce=3&map=attempt_202611201830_0007_m_000000_1,attempt_202611201830_0007_m_000012_1"
        );
        let parse = |target: &str| FetchRequest::parse_query(target.split_once('?').unwrap().1);
        assert_eq!(parse(&target), Ok(request.clone()));
        // What a task of a round made.
        request.maps[1].task.kind = TaskKind::Reduce;
        assert_eq!(parse(&request.to_target()), Ok(request.clone()));
        request.partitions = 3..10;
        let target = request.to_target();
        assert!(target.contains("&reduce=3&count=7&map="), "{target}");
        assert_eq!(parse(&target), Ok(request));
    }

    #[test]
    fn other_queries_are_refused() {
        let many = vec![attempt(1).to_string(); MAPS_PER_REQUEST_MAX + 1].join(",");
        let other_job =
            "job=job_202611201830_0008&reduce=3&map=attempt_202611201830_0007_m_000000_1";
        let many = format!("job=job_202611201830_0007&reduce=3&map={many}");
        for query in [
            "",
            "job=x&reduce=1&map=y",
            "job=job_202611201830_0007&reduce=3",
            "job=job_202611201830_0007&map=attempt_202611201830_0007_m_000000_1",
            "job=job_202611201830_0007&reduce=3&map=",
            other_job,
            "job=job_202611201830_0007&reduce=3&reduce=4&map=attempt_202611201830_0007_m_000000_1",
            "job=job_202611201830_0007&job=job_202611201830_0007&reduce=3&map=attempt_202611201830_0007_m_000000_1",
            "job=job_202611201830_0007&reduce=3&map=attempt_202611201830_0007_m_000000_1&map=attempt_202611201830_0007_m_000000_1",
            "job=job_202611201830_0007&reduce=3&count=0&map=attempt_202611201830_0007_m_000000_1",
            "job=job_202611201830_0007&reduce=4294967295&count=2&map=attempt_202611201830_0007_m_000000_1",
            "job=job_202611201830_0007&reduce=3&map=attempt_202611201830_0007_m_000000_1,attempt_202611201830_0007_m_000000_1",
            &many,
        ] {
            assert!(FetchRequest::parse_query(query).is_err(), "{query}");
        }
    }

    #[test]
    fn golden_bytes() {
        let header =
            SegmentHeader { attempt: attempt(12), reduce: 3, stored: 300, raw: 1000, records: 5 };
        let bytes = wire::encode(&SegmentAnswer::Segment(header));
        assert_eq!(bytes, [0, 166, 174, 198, 228, 242, 5, 7, 0, 12, 1, 3, 172, 2, 232, 7, 5]);
        let answer = SegmentAnswer::Segment(header);
        assert_eq!(wire::decode::<SegmentAnswer>(&bytes, "answer"), Ok(answer));
        for end in 0..bytes.len() {
            assert!(wire::decode::<SegmentAnswer>(&bytes[..end], "answer").is_err());
        }
    }
}
