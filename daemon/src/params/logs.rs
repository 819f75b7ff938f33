//! Which part of an attempt's logs is wanted: the same for users, who ask the JobTracker, and for the JobTracker, which asks a worker.

use super::{BadParameter, Given, Parameters};

/// Where a task writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamKind {
    /// Both, in the order in which they are shown.
    pub const ALL: [StreamKind; 2] = [StreamKind::Stdout, StreamKind::Stderr];

    /// Its name, also of its file.
    pub fn name(self) -> &'static str {
        match self {
            StreamKind::Stdout => "stdout",
            StreamKind::Stderr => "stderr",
        }
    }
}

/// A part of an attempt's logs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogRange {
    /// The only stream; `None` for both.
    pub stream: Option<StreamKind>,
    /// Bytes at the end of each; `None` for all.
    pub tail: Option<u64>,
}

impl LogRange {
    /// The query that asks for it.
    pub fn to_query(self) -> String {
        let stream = self.stream.map(|stream| format!("stream={}", stream.name()));
        let tail = self.tail.map(|tail| format!("tail={tail}"));
        stream.into_iter().chain(tail).collect::<Vec<_>>().join("&")
    }
}

impl Parameters for LogRange {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let streams = StreamKind::ALL.map(|stream| (stream.name(), stream));
        Ok(LogRange {
            stream: given.choice("stream", &streams)?,
            tail: given.number("tail", 0..=u64::MAX)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::understand;

    #[test]
    fn a_range_is_handed_on_as_it_was_asked_for() {
        for query in ["", "stream=stdout", "tail=7", "stream=stderr&tail=0"] {
            let (range, warning) = understand::<LogRange>(query).unwrap();
            assert_eq!((range.to_query().as_str(), warning), (query, None));
        }
        for query in
            ["stream=out", "stream=STDOUT", "tail=-1", "tail=1k", "tail=1&tail=2", "Tail=1"]
        {
            assert!(understand::<LogRange>(query).is_err(), "{query}");
        }
    }
}
