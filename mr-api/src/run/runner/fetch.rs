//! Gets map outputs for a reduce: opens them directly on the same machine, fetches them over HTTP from another.
//!
//! Invariants: at most [`PARALLEL_FETCHES_MAX`] requests run at once, one per worker; segments kept in memory stay within their share of
//! the task's memory, others go to a file of the attempt; at most [`OPEN_FILES_MAX`] files are open; segments in memory are verified on
//! arrival, segments in a file during the merge; every failure is reported and retried after a pause.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mr_model::Result;
use mr_model::runner::TaskState;
use mr_model::runner::phases::REDUCE_START_PROGRESS;
use mr_model::runner::side_file::ENGINE_PREFIX;
use mr_model::task::Context;
use protocol::AttemptId;
use protocol::address::url_of;
use protocol::auth::Service;
use protocol::error::chain;
use protocol::frame;
use protocol::property::{Properties, keys};
use protocol::runner::{SILENCE_PROPERTY, Setup};
use protocol::shuffle::{ANSWER_BYTES_MAX, FetchRequest, SegmentAnswer, SegmentHeader};
use protocol::tracker::{FetchFailure, MapOutput};
use shuffle::{SegmentSource, read_partitions, verify_segment};
use transport::rpc::PassHolder;
use transport::rpc::{RpcClient, runtime};

use super::channel::Channel;
use super::gather::{Gather, Input, News};

/// Requests at once per reduce, as in Hadoop.
const PARALLEL_FETCHES_MAX: usize = 5;
/// Time without a byte after which a worker counts as unreachable.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Share of the task's memory for fetched segments, per cent, as in Hadoop; the rest is for merging.
const MEMORY_PERCENT: usize = 70;
/// A segment larger than this share of that memory goes directly to disk, per cent, as in Hadoop.
const SEGMENT_PERCENT_MAX: usize = 25;
/// Segment files that stay open: an open file remains readable to the end, even if its worker dies. Files of further maps are opened for
/// the merge, because a process may hold only so many.
const OPEN_FILES_MAX: usize = 2048;
/// How often a waiting reduce reports that it is alive while nothing happens; more often where less silence is allowed.
const WAIT_PAUSE_MAX: Duration = Duration::from_secs(5);
/// Signs of life in the time for which an attempt may be silent: a machine under load makes some of them late.
const SIGNS_PER_SILENCE: u32 = 4;

pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    boot_id: String,
    news: mpsc::Sender<News>,
    wait_pause: Duration,
}

struct Shared {
    reduce: AttemptId,
    partitions: Range<u32>,
    pass: PassHolder,
    directory: PathBuf,
    memory_bytes_max: usize,
    segment_bytes_max: u64,
    memory_bytes: AtomicUsize,
    open_files: AtomicUsize,
    file_count: AtomicU64,
    /// Why this machine cannot store the fetched data.
    local_failure: Mutex<Option<String>>,
}

impl Fetcher {
    pub(crate) fn new(
        (setup, pass): (&Setup, &PassHolder),
        (reduce, partitions): (AttemptId, Range<u32>),
        directory: &Path,
        memory_bytes: usize,
        news: mpsc::Sender<News>,
    ) -> Self {
        let memory_bytes_max = memory_bytes / 100 * MEMORY_PERCENT;
        let shared = Shared {
            reduce,
            partitions,
            pass: pass.clone(),
            directory: directory.to_owned(),
            memory_bytes_max,
            segment_bytes_max: (memory_bytes_max / 100 * SEGMENT_PERCENT_MAX) as u64,
            memory_bytes: AtomicUsize::new(0),
            open_files: AtomicUsize::new(0),
            file_count: AtomicU64::new(0),
            local_failure: Mutex::default(),
        };
        let wait_pause = wait_pause(&setup.program.properties);
        Fetcher { shared: Arc::new(shared), boot_id: setup.boot_id.clone(), news, wait_pause }
    }

    /// Waits until every map's output is there; returns all of them in map order.
    pub(crate) fn gather(
        &self,
        gather: &mut Gather,
        news: &mpsc::Receiver<News>,
        channel: &Channel,
        context: &Context,
    ) -> Result<Vec<Input>> {
        let mut busy: Vec<String> = Vec::new();
        self.shared.memory_bytes.store(0, Ordering::Relaxed);
        self.shared.open_files.store(0, Ordering::Relaxed);
        loop {
            self.begin(gather, &mut busy, channel, context);
            TaskState::of(context).set_progress(gather.share() * REDUCE_START_PROGRESS / 2.0);
            if gather.is_complete() && busy.is_empty() {
                return Ok(gather.take());
            }
            let now = Instant::now();
            let due =
                gather.next_due().map_or(self.wait_pause, |due| due.saturating_duration_since(now));
            let came = news.recv_timeout(due.min(self.wait_pause));
            context.show_life();
            match came {
                Ok(News::Outputs { available, obsolete }) => {
                    gather.obsolete(&obsolete);
                    gather.announce(available);
                }
                Ok(News::Fetched { host, outcomes }) => {
                    // A full disk here is not the maps' fault: this attempt fails, their outputs stay.
                    let failure = &self.shared.local_failure;
                    let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(diagnostics) = failure {
                        return Err(diagnostics.into());
                    }
                    busy.retain(|other| *other != host);
                    for (map, outcome) in outcomes {
                        self.settle(gather, map, outcome, channel, context);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("the worker is gone".into()),
            }
        }
    }

    /// Starts every fetch that can start now.
    fn begin(
        &self,
        gather: &mut Gather,
        busy: &mut Vec<String>,
        channel: &Channel,
        context: &Context,
    ) {
        while busy.len() < PARALLEL_FETCHES_MAX {
            let batch = gather.begin(Instant::now(), busy);
            let Some(first) = batch.first() else { return };
            if first.boot_id == self.boot_id {
                let mut remote = Vec::new();
                for output in batch {
                    match self.open(&output) {
                        Ok(input) => {
                            let bytes = input.stored;
                            TaskState::of(context).engine_counter("LOCAL_SHUFFLE_BYTES").add(bytes);
                            self.settle(gather, output.attempt, Ok(input), channel, context);
                        }
                        // Another user's file, or a container: the worker will serve it.
                        Err(_) => remote.push(output),
                    }
                }
                self.fetch(remote, busy);
            } else {
                self.fetch(batch, busy);
            }
        }
    }

    fn settle(
        &self,
        gather: &mut Gather,
        map: AttemptId,
        outcome: Result<Input, String>,
        channel: &Channel,
        context: &Context,
    ) {
        match outcome {
            Ok(input) => {
                TaskState::of(context).add("REDUCE_SHUFFLE_BYTES", input.stored);
                TaskState::of(context).add("SHUFFLED_MAPS", 1);
                gather.got(input);
            }
            Err(diagnostics) => {
                TaskState::of(context).add("FAILED_SHUFFLE", 1);
                let reduce = self.shared.reduce;
                channel.fetch_failed(FetchFailure { reduce, map, diagnostics });
                gather.failed(map, Instant::now());
            }
        }
    }

    /// The segments in the file of another task on this machine: reads what its index says of them, and no more.
    fn open(&self, output: &MapOutput) -> Result<Input> {
        let path = Path::new(&output.data_path);
        let index = path.with_extension("index");
        let segments = sys::fs::open_regular(&index)?;
        let segments = read_partitions(&segments, &index, self.shared.partitions.clone())?;
        let mut full = segments.iter().filter(|segment| segment.records > 0).peekable();
        let mut sources = Vec::new();
        if full.peek().is_some() {
            let file = self.shared.lend(sys::fs::open_regular(path)?, path);
            sources.extend(full.map(|segment| file.segment(segment.offset, segment.stored)));
        }
        Ok(Input {
            map: output.attempt,
            sources,
            stored: segments.iter().map(|segment| segment.stored).sum(),
            records: segments.iter().map(|segment| segment.records).sum(),
        })
    }

    /// Requests outputs from a worker; the results arrive as [`News::Fetched`].
    fn fetch(&self, batch: Vec<MapOutput>, busy: &mut Vec<String>) {
        let Some(first) = batch.first() else { return };
        let host = first.http_address.clone();
        busy.push(host.clone());
        let maps: Vec<AttemptId> = batch.iter().map(|output| output.attempt).collect();
        let (shared, news) = (Arc::clone(&self.shared), self.news.clone());
        runtime().spawn(async move {
            let mut outcomes = Vec::new();
            if let Err(error) = shared.request(&host, &maps, &mut outcomes).await {
                let answered = outcomes.len();
                outcomes.extend(maps[answered..].iter().map(|map| (*map, Err(error.clone()))));
            }
            // If the reduce is over, nobody wants them.
            let _ = news.send(News::Fetched { host, outcomes });
        });
    }
}

/// How long a waiting reduce may be silent: a part of what its worker allows.
fn wait_pause(properties: &Properties) -> Duration {
    let told = properties.get(SILENCE_PROPERTY).and_then(|text| text.parse().ok());
    let of_job = || Some(keys::TASK_TIMEOUT.get(properties).ok()??.0);
    match told.or_else(of_job) {
        None | Some(0) => WAIT_PAUSE_MAX,
        Some(most) => (Duration::from_millis(most) / SIGNS_PER_SILENCE).min(WAIT_PAUSE_MAX),
    }
}

impl Shared {
    /// Sends one request; returns the outcomes in the requested order, as far as the answer goes.
    async fn request(
        &self,
        host: &str,
        maps: &[AttemptId],
        outcomes: &mut Vec<(AttemptId, Result<Input, String>)>,
    ) -> Result<(), String> {
        let job = self.reduce.task.job;
        let request =
            FetchRequest { job, partitions: self.partitions.clone(), maps: maps.to_vec() };
        let worker = RpcClient::of_task(&url_of(host), &self.pass)
            .map_err(|error| chain(&error))?
            .expecting(Service::Worker);
        let response = tokio::time::timeout(READ_TIMEOUT, worker.get(&request.to_target())).await;
        let response = response
            .map_err(|_| format!("{host} does not answer"))?
            .map_err(|error| chain(&error))?;
        let mut body = Segments::new(response);
        for map in maps {
            let outcome = self.receive_all(&mut body, *map).await?;
            outcomes.push((*map, outcome));
        }
        Ok(())
    }

    /// Reads the segments of one map. The outer error means that the connection is unusable.
    async fn receive_all(
        &self,
        body: &mut Segments,
        map: AttemptId,
    ) -> Result<Result<Input, String>, String> {
        let mut input = Input { map, sources: Vec::new(), stored: 0, records: 0 };
        let mut damaged = None;
        for partition in self.partitions.clone() {
            match body.answer().await? {
                SegmentAnswer::Lost { diagnostics, .. } => return Ok(Err(diagnostics)),
                SegmentAnswer::Segment(header) => {
                    check_header(&header, map, partition)?;
                    if header.records == 0 {
                        body.copy(header.stored, |_| Ok(())).await?;
                    } else {
                        match self.receive(body, &header).await? {
                            Ok(source) => input.sources.push(source),
                            // The other segments still follow.
                            Err(reason) => damaged = Some(reason),
                        }
                    }
                    input.stored += header.stored;
                    input.records += header.records;
                }
            }
        }
        Ok(damaged.map_or(Ok(input), Err))
    }

    /// Reads a segment into memory or a file. The outer error means that the connection is unusable.
    async fn receive(
        &self,
        body: &mut Segments,
        header: &SegmentHeader,
    ) -> Result<Result<SegmentSource, String>, String> {
        let SegmentHeader { stored, records, .. } = *header;
        Ok(match self.reserve(stored) {
            Some(len) => {
                let mut bytes = Vec::with_capacity(len);
                body.copy(stored, |chunk| {
                    bytes.extend_from_slice(chunk);
                    Ok(())
                })
                .await?;
                match verify_segment(&bytes) {
                    Ok(totals) if totals.records == records => Ok(SegmentSource::Memory(bytes)),
                    Ok(_) => Err("the segment has other records than announced".into()),
                    Err(error) => Err(chain(&error)),
                }
            }
            None => {
                let here = |operation, error| {
                    let error =
                        shuffle::io_error(operation, &self.directory.join("segment"))(error);
                    self.give_up(chain(&error))
                };
                let (mut file, path) = self.file().map_err(|error| here("create", error))?;
                body.copy(stored, |chunk| {
                    file.write_all(chunk).map_err(|error| here("write to", error))
                })
                .await?;
                Ok(self.lend(file, &path).segment(0, stored))
            }
        })
    }

    /// Records that the fault is on this machine; returns the reason.
    fn give_up(&self, diagnostics: String) -> String {
        let mut failure = self.local_failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(diagnostics).clone()
    }

    /// The length of a segment if there is memory for it.
    fn reserve(&self, stored: u64) -> Option<usize> {
        let len = usize::try_from(stored).ok().filter(|_| stored <= self.segment_bytes_max)?;
        let before = self.memory_bytes.fetch_add(len, Ordering::Relaxed);
        if before + len <= self.memory_bytes_max {
            return Some(len);
        }
        self.memory_bytes.fetch_sub(len, Ordering::Relaxed);
        None
    }

    /// Creates a file of the attempt; its directory is removed when the attempt is over.
    fn file(&self) -> std::io::Result<(File, PathBuf)> {
        let number = self.file_count.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("{ENGINE_PREFIX}fetched-{number}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        Ok((file, path))
    }

    /// Wraps a file with segments; it stays open if the limit allows.
    fn lend(&self, file: File, path: &Path) -> SegmentFile {
        let is_room = self.open_files.fetch_add(1, Ordering::Relaxed) < OPEN_FILES_MAX;
        SegmentFile { open: is_room.then(|| Arc::new(file)), path: path.into() }
    }
}

struct SegmentFile {
    open: Option<Arc<File>>,
    path: Arc<Path>,
}

impl SegmentFile {
    fn segment(&self, offset: u64, stored: u64) -> SegmentSource {
        match &self.open {
            Some(file) => SegmentSource::File { file: Arc::clone(file), offset, stored },
            None => SegmentSource::Lent { path: Arc::clone(&self.path), offset, stored },
        }
    }
}

fn check_header(header: &SegmentHeader, map: AttemptId, partition: u32) -> Result<(), String> {
    if header.attempt != map {
        return Err(format!("asked for {map}, got {}", header.attempt));
    }
    if header.reduce != partition {
        return Err(format!("asked for partition {partition}, got {}", header.reduce));
    }
    Ok(())
}

/// The body of an answer, as a stream of bytes.
struct Segments {
    body: transport::rpc::Body,
    chunk: bytes::Bytes,
}

impl Segments {
    fn new(body: transport::rpc::Body) -> Self {
        Segments { body: body.silent_for(READ_TIMEOUT), chunk: bytes::Bytes::new() }
    }

    /// The next header frame.
    async fn answer(&mut self) -> Result<SegmentAnswer, String> {
        let mut header = [0; frame::HEADER_BYTES];
        let mut at = 0;
        self.copy(frame::HEADER_BYTES as u64, |chunk| {
            header[at..at + chunk.len()].copy_from_slice(chunk);
            at += chunk.len();
            Ok(())
        })
        .await?;
        let (len, crc) =
            frame::parse_header(header, ANSWER_BYTES_MAX).map_err(|error| chain(&error))?;
        let mut body = Vec::with_capacity(len);
        self.copy(len as u64, |chunk| {
            body.extend_from_slice(chunk);
            Ok(())
        })
        .await?;
        frame::decode_body(&body, crc, "header of a segment").map_err(|error| chain(&error))
    }

    /// Passes exactly `count` bytes to `each`.
    async fn copy(
        &mut self,
        mut count: u64,
        mut each: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        while count > 0 {
            if self.chunk.is_empty() {
                let next = self.body.next().await;
                self.chunk =
                    next.map_err(|error| chain(&error))?.ok_or("the answer ended early")?;
            }
            let take = self.chunk.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            each(&self.chunk.split_to(take))?;
            count -= take as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
mod tests;
