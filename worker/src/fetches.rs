//! Segments of map outputs on their way to reduces, in the form of [`protocol::shuffle`].
//!
//! Invariants: a thread reads one piece and is free again, so a fetcher that takes nothing keeps none; fetches have a part of the process's threads, and the
//! looks at tasks, their ends and their outputs always find one. The index was checked when the worker took the output.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::{Stream, stream};
use protocol::shuffle::{FetchRequest, SegmentAnswer, SegmentHeader};
use protocol::{AttemptId, frame};
use shuffle::SegmentInfo;
use tokio::sync::Semaphore;

use crate::outputs::{Held, Outputs};

/// Bytes read and sent in one piece, and one segment more where they are short: large enough that the cost of calls is negligible, small enough to keep memory
/// per request low.
const PIECE_BYTES: usize = 256 << 10;
/// Pieces that are read at once: a disk has no more to do, and seven eighths of the threads for such work are left.
const READS_MAX: usize = 64;
/// Longest diagnostics of a lost output; well within the fetcher's limit.
const DIAGNOSTICS_CHARS_MAX: usize = 500;

/// All fetches. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Fetches {
    outputs: Outputs,
    /// Bytes of segments that were passed on.
    served: Arc<AtomicU64>,
    reads: Arc<Semaphore>,
}

impl Fetches {
    pub(crate) fn new(outputs: Outputs, served: Arc<AtomicU64>) -> Self {
        Fetches { outputs, served, reads: Arc::new(Semaphore::new(READS_MAX)) }
    }

    /// The answer to a fetch, piece by piece as its client takes them.
    pub(crate) fn pieces(
        &self,
        fetch: FetchRequest,
    ) -> impl Stream<Item = io::Result<Bytes>> + use<> {
        let FetchRequest { maps, partitions, .. } = fetch;
        let maps: Vec<_> = maps.iter().map(|map| (*map, self.outputs.held(*map))).collect();
        let reading = Reading {
            outputs: self.outputs.clone(),
            maps: maps.into_iter(),
            partitions,
            segments: None,
            segment_bytes: 0,
            failure: None,
        };
        let state = (reading, Arc::clone(&self.reads), Arc::clone(&self.served));
        stream::try_unfold(state, async |(mut reading, reads, served)| {
            let place = Arc::clone(&reads).acquire_owned().await.map_err(io::Error::other)?;
            let read = tokio::task::spawn_blocking(move || {
                let piece = reading.piece();
                drop(place);
                served.fetch_add(std::mem::take(&mut reading.segment_bytes), Ordering::Relaxed);
                (piece, reading, served)
            });
            let (piece, reading, served) = read.await.map_err(io::Error::other)?;
            let Some(piece) = piece? else { return Ok(None) };
            Ok(Some((piece, (reading, reads, served))))
        })
    }
}

/// How far a fetch was answered.
struct Reading {
    outputs: Outputs,
    maps: std::vec::IntoIter<(AttemptId, Option<Held>)>,
    partitions: Range<u32>,
    /// Of the present map.
    segments: Option<Segments>,
    /// Of segments, in the last piece.
    segment_bytes: u64,
    /// What ends the answer behind what was read before it.
    failure: Option<io::Error>,
}

/// The segments of a map output that are still to be sent.
struct Segments {
    attempt: AttemptId,
    file: File,
    rest: std::iter::Zip<Range<u32>, std::vec::IntoIter<SegmentInfo>>,
    /// Of the segment that was begun.
    bytes: Range<u64>,
}

impl Reading {
    /// The next bytes of the answer; `None` at its end.
    fn piece(&mut self) -> io::Result<Option<Bytes>> {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES && self.failure.is_none() {
            match self.add(&mut piece) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.failure = Some(error),
            }
        }
        match self.failure.take_if(|_| piece.is_empty()) {
            Some(error) => Err(error),
            None => Ok(Some(Bytes::from(piece)).filter(|piece| !piece.is_empty())),
        }
    }

    /// Adds what comes next; false if nothing does.
    fn add(&mut self, piece: &mut Vec<u8>) -> io::Result<bool> {
        if let Some(segments) = &mut self.segments {
            if let Some(bytes) = segments.add(piece)? {
                self.segment_bytes += bytes;
                return Ok(true);
            }
            self.segments = None;
        }
        let Some((attempt, held)) = self.maps.next() else { return Ok(false) };
        match self.open(attempt, held) {
            Ok(segments) => self.segments = Some(segments),
            Err(reason) => {
                let diagnostics = format!("map output {attempt} is lost: {reason}");
                let diagnostics = diagnostics.chars().take(DIAGNOSTICS_CHARS_MAX).collect();
                let lost = SegmentAnswer::Lost { attempt, diagnostics };
                piece.extend_from_slice(&frame::encode(&lost));
            }
        }
        Ok(true)
    }

    fn open(&self, attempt: AttemptId, held: Option<Held>) -> Result<Segments, String> {
        let held = held.ok_or_else(|| "it is not held here".to_owned())?;
        let segments = self.outputs.segments(attempt, &held, self.partitions.clone())?;
        let file = self
            .outputs
            .open(attempt, &held)
            .map_err(|error| format!("cannot open it: {error}"))?;
        let length = file.metadata().map_err(|error| format!("cannot stat it: {error}"))?.len();
        if segments.last().is_some_and(|last| length < last.offset + last.stored) {
            return Err(format!("it was cut off at byte {length}"));
        }
        let rest = self.partitions.clone().zip(segments);
        Ok(Segments { attempt, file, rest, bytes: 0..0 })
    }
}

impl Segments {
    /// Adds bytes of the segment that was begun, and says how many, or the head of the next one; `None` behind the last one.
    fn add(&mut self, piece: &mut Vec<u8>) -> io::Result<Option<u64>> {
        if self.bytes.is_empty() {
            let Some((reduce, segment)) = self.rest.next() else { return Ok(None) };
            let SegmentInfo { offset, stored, raw, records, .. } = segment;
            let head = SegmentHeader { attempt: self.attempt, reduce, stored, raw, records };
            piece.extend_from_slice(&frame::encode(&SegmentAnswer::Segment(head)));
            self.bytes = offset..offset + stored;
            return Ok(Some(0));
        }
        let room = PIECE_BYTES.saturating_sub(piece.len()).max(1) as u64;
        let count = room.min(self.bytes.end - self.bytes.start);
        let filled = piece.len();
        piece.resize(filled + count as usize, 0);
        let read = self.file.read_exact_at(&mut piece[filled..], self.bytes.start);
        if let Err(error) = read {
            piece.truncate(filled);
            return Err(error);
        }
        self.bytes.start += count;
        Ok(Some(count))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::StreamExt;
    use protocol::{JobId, TaskId, TaskKind};

    use super::*;
    use crate::scratch::OpenDir;

    /// Several pieces.
    const STORED: u64 = 3 * PIECE_BYTES as u64 + 7;
    const JOB: JobId = JobId { cluster_start: 1, number: 1 };

    fn attempt(index: u32) -> AttemptId {
        AttemptId { task: TaskId { job: JOB, kind: TaskKind::Map, index }, number: 0 }
    }

    /// Two outputs of two segments each.
    fn fetches(root: &std::path::Path) -> Fetches {
        let path = root.canonicalize().unwrap();
        let directory = |name: &str| {
            std::fs::create_dir(path.join(name)).unwrap();
            OpenDir::open(&path.join(name)).unwrap()
        };
        let outputs = Outputs::new(directory("outputs"));
        for index in 0..2 {
            let made = directory(&format!("attempt-{index}"));
            let segment = |offset| SegmentInfo { offset, stored: STORED, raw: 9, records: 3 };
            let segments = [segment(0), segment(STORED)];
            let bytes: Vec<u8> = (0..2 * STORED).map(|at| (at % 251) as u8 + index as u8).collect();
            std::fs::write(made.path.join("output.data"), bytes).unwrap();
            std::fs::write(made.path.join("output.index"), shuffle::encode_index(&segments))
                .unwrap();
            let said = made.path.join("output.data");
            outputs.insert(attempt(index), &made, said.to_str().unwrap(), 2).unwrap();
        }
        Fetches::new(outputs, Arc::default())
    }

    fn request(maps: &[u32]) -> FetchRequest {
        let maps = maps.iter().map(|map| attempt(*map)).collect();
        FetchRequest { job: JOB, partitions: 0..2, maps }
    }

    #[test]
    fn fetchers_that_take_nothing_keep_no_thread_and_no_place() {
        let root = tempfile::tempdir().unwrap();
        // One thread is left beside those that fetches may take.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .max_blocking_threads(READS_MAX + 1)
            .build()
            .unwrap();
        let fetches = fetches(root.path());
        runtime.block_on(async {
            let mut begun = Vec::new();
            for _ in 0..2 * READS_MAX {
                let mut pieces = Box::pin(fetches.pieces(request(&[0, 1])));
                assert_eq!(pieces.next().await.unwrap().unwrap().len(), PIECE_BYTES);
                begun.push(pieces);
            }
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let mut pieces = pin!(fetches.pieces(request(&[1, 7, 0])));
            let mut all = Vec::new();
            while let Some(piece) = pieces.next().await {
                all.extend_from_slice(&piece.unwrap());
            }
            check(&all, &[Some(1), None, Some(0)]);
        });
        let served = fetches.served.load(Ordering::Relaxed);
        assert!(served > 4 * STORED, "and the first pieces of the others: {served}");
    }

    /// The answer has the segments of these outputs; `None`: it says that one is lost.
    fn check(mut rest: &[u8], outputs: &[Option<u8>]) {
        let mut answer = || {
            let (head, after) = rest.split_first_chunk().unwrap();
            let (length, crc) = frame::parse_header(*head, 4 << 10).unwrap();
            let (body, after) = after.split_at(length);
            let answer: SegmentAnswer = frame::decode_body(body, crc, "answer").unwrap();
            let stored =
                if matches!(answer, SegmentAnswer::Segment(_)) { STORED as usize } else { 0 };
            let (bytes, after) = after.split_at(stored);
            rest = after;
            (answer, bytes)
        };
        for output in outputs {
            let Some(output) = output else {
                assert!(matches!(answer().0, SegmentAnswer::Lost { .. }));
                continue;
            };
            for reduce in 0..2 {
                let (SegmentAnswer::Segment(head), bytes) = answer() else { panic!("lost") };
                assert_eq!((head.attempt, head.reduce), (attempt(u32::from(*output)), reduce));
                let first = u64::from(reduce) * STORED;
                assert!((first..).zip(bytes).all(|(at, byte)| *byte == (at % 251) as u8 + output));
            }
        }
        assert!(rest.is_empty());
    }
}
