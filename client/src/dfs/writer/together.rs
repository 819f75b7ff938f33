//! Writes many small files together: their calls share messages, and blocks that go the same way share an operation with each DataNode.
//!
//! ```text
//! creates in one message -> packets of each pipeline in one operation -> acks -> completes in one message
//! ```
//!
//! Each file has the machine of any writer ([`flow::writer::Writer`]); only who carries out its steps differs. A file that meets anything unusual (a DataNode
//! that fails, a call that must wait) goes on alone, as every other file does.
//!
//! Invariant: what is promised of a file is what its own machine says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use flow::creation;
use flow::writer::{Goal, Patience, Step};
use protocol::error::chain;
use protocol::namenode::{Answer, BATCH_CALLS_MAX, Body, Call, Create, Created, DatanodeInfo};
use protocol::token::BlockToken;
use protocol::transfer::{WRITE_MANY_BYTES_MAX, WRITE_MANY_MAX, Write};
use protocol::{BlockId, DfsPath, ErrorKind, GenerationStamp, RemoteError};
use transport::{Pipe, RpcError, TransferFailure};

use super::{DfsWriter, create_of, report};
use crate::dfs::create::{CreateOptions, Parents};
use crate::dfs::error::{DfsError, MemberFailure};
use crate::dfs::lease::Leases;
use crate::dfs::link::Link;

/// Most bytes of a file that is written together with others.
pub const SMALL_FILE_BYTES_MAX: usize = WRITE_MANY_BYTES_MAX as usize;
/// Most files that are written together.
pub const SMALL_FILES_MAX: usize = WRITE_MANY_MAX + 1;

/// Threads for files that cannot go on with the others.
const ALONE_THREADS_MAX: usize = 16;

/// A file with its contents.
#[derive(Clone, Debug)]
pub struct SmallFile {
    /// Where it is created.
    pub path: DfsPath,
    /// How.
    pub options: CreateOptions,
    /// At most [`SMALL_FILE_BYTES_MAX`].
    pub bytes: Vec<u8>,
}

/// A file under way.
struct Lane {
    writer: DfsWriter,
    state: State,
}

enum State {
    Together,
    Alone,
    Ended(Result<(), DfsError>),
}

/// Blocks that go the same way.
struct Way {
    first: DatanodeInfo,
    write: Write,
    token: BlockToken,
    more: Vec<(BlockId, GenerationStamp, BlockToken)>,
    /// Indexes of their files.
    lanes: Vec<usize>,
}

/// Writes the files, each with its own outcome, in order.
pub(in crate::dfs) fn write_together(
    link: &Arc<Link>,
    leases: &Arc<Leases>,
    files: Vec<SmallFile>,
) -> Vec<Result<(), DfsError>> {
    let mut outcomes = Vec::with_capacity(files.len());
    let mut files = files.into_iter().peekable();
    while files.peek().is_some() {
        let some = files.by_ref().take(SMALL_FILES_MAX).collect();
        outcomes.extend(write_some(link, leases, some));
    }
    outcomes
}

fn write_some(
    link: &Arc<Link>,
    leases: &Arc<Leases>,
    files: Vec<SmallFile>,
) -> Vec<Result<(), DfsError>> {
    let created = create_all(link, &files);
    let begin = |(file, created): (SmallFile, Result<Created, DfsError>)| {
        let SmallFile { path, options, bytes } = file;
        let created = created?;
        let is_small =
            bytes.len() <= SMALL_FILE_BYTES_MAX && (bytes.len() as u64) < created.block_size;
        let mut writer = DfsWriter::begin(link, leases, path, options, created);
        writer.write_bytes(&bytes)?;
        writer.flow.begin(Goal::Close);
        Ok(Lane { writer, state: if is_small { State::Together } else { State::Alone } })
    };
    let begun: Vec<Result<Lane, DfsError>> = files.into_iter().zip(created).map(begin).collect();
    let mut lanes: Vec<Lane> = Vec::new();
    let mut outcomes: Vec<Option<Result<(), DfsError>>> = Vec::new();
    for begun in begun {
        match begun {
            Ok(lane) => {
                lanes.push(lane);
                outcomes.push(None);
            }
            Err(error) => outcomes.push(Some(Err(error))),
        }
    }
    drive(link, &mut lanes);
    go_on_alone(&mut lanes);
    let mut ended = lanes.into_iter().map(Lane::end);
    let mut or_lane = |outcome: Option<_>| outcome.or_else(|| ended.next());
    outcomes
        .into_iter()
        .map(|outcome| or_lane(outcome).unwrap_or(Err(DfsError::Unexpected)))
        .collect()
}

/// Creates all files, with their first blocks.
fn create_all(link: &Arc<Link>, files: &[SmallFile]) -> Vec<Result<Created, DfsError>> {
    let calls_of = |file: &SmallFile| {
        let create =
            Create { first_block: !file.bytes.is_empty(), ..create_of(&file.path, &file.options) };
        match &file.options.parents {
            Parents::Below(root) => creation::below(root, create),
            Parents::None | Parents::All => vec![Call::Create(create)],
        }
    };
    let mut created = Vec::with_capacity(files.len());
    let mut rest = files;
    while !rest.is_empty() {
        let mut calls: Vec<Vec<Call>> = Vec::new();
        for file in rest {
            let own = calls_of(file);
            let count: usize = calls.iter().map(Vec::len).sum();
            if !calls.is_empty() && count + own.len() > BATCH_CALLS_MAX {
                break;
            }
            calls.push(own);
        }
        rest = &rest[calls.len()..];
        created.extend(create_some(link, calls));
    }
    created
}

fn create_some(link: &Arc<Link>, calls: Vec<Vec<Call>>) -> Vec<Result<Created, DfsError>> {
    let answers = link.call(Body::Batch(calls.concat())).and_then(|reply| Ok(reply.try_into()?));
    let answers: Vec<Answer> = match answers {
        Ok(answers) => answers,
        Err(error) => return calls.iter().map(|_| Err(again(&error))).collect(),
    };
    let mut answers = answers.into_iter();
    let outcome = |calls: Vec<Call>| {
        let own = answers.by_ref().take(calls.len()).collect();
        match creation::outcome(own).ok_or(DfsError::Unexpected)? {
            Ok(reply) => Ok(reply.try_into()?),
            // By itself it is sent again for a while.
            Err(refusal) if refusal.kind.is_transient() => {
                let create = calls.into_iter().last().ok_or(DfsError::Unexpected)?;
                Ok(link.call(create)?.try_into()?)
            }
            Err(refusal) => Err(RpcError::Remote(refusal).into()),
        }
    };
    calls.into_iter().map(outcome).collect()
}

/// The failure of a message, for each of those who were in it.
fn again(error: &DfsError) -> DfsError {
    let refusal = match error {
        DfsError::Rpc(RpcError::Remote(refusal)) => refusal.clone(),
        error => RemoteError::new(error.kind().unwrap_or(ErrorKind::Unavailable), chain(error)),
    };
    RpcError::Remote(refusal).into()
}

/// Takes all files as far as they go together.
fn drive(link: &Arc<Link>, lanes: &mut [Lane]) {
    for way in open_all(lanes) {
        send_all(link, way, lanes);
    }
    loop {
        let mut calls = Vec::new();
        for (index, lane) in lanes.iter_mut().enumerate() {
            calls.extend(lane.next_call().map(|call| (index, call)));
        }
        if calls.is_empty() {
            return;
        }
        answer_all(link, calls, lanes);
    }
}

/// Ends the files that could not go on with the others: several at once, since each may have to wait.
fn go_on_alone(lanes: &mut [Lane]) {
    let is_left = |lane: &&mut Lane| !matches!(lane.state, State::Ended(_));
    let left: Vec<&mut Lane> = lanes.iter_mut().filter(is_left).collect();
    let threads = ALONE_THREADS_MAX.min(left.len());
    let left = Mutex::new(left);
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(lane) = next() {
                    lane.state = State::Ended(lane.writer.go_on());
                }
            });
        }
    });
}

/// The ways that the blocks of the files go.
fn open_all(lanes: &mut [Lane]) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    let together = lanes.iter_mut().enumerate().filter(|(_, lane)| lane.is_together());
    for (index, lane) in together {
        let Step::Open { first, block, write } = lane.writer.flow.next_step(Instant::now()) else {
            // An empty file has no block. Whatever else it is, the step is named again.
            continue;
        };
        let (id, stamp, token) = block.permit();
        match ways.iter_mut().find(|way| way.takes(first, &write)) {
            Some(way) => {
                way.more.push((id, stamp, token.clone()));
                way.lanes.push(index);
            }
            None => {
                let (first, token) = (first.clone(), token.clone());
                ways.push(Way { first, write, token, more: Vec::new(), lanes: vec![index] });
            }
        }
    }
    ways
}

impl Way {
    fn takes(&self, first: &DatanodeInfo, write: &Write) -> bool {
        let others = write.pipeline.iter().map(|it| it.id);
        let is_new = |write: &Write| write.resume.is_none() && !write.prefix_only;
        self.first.id == first.id
            && (self.write.durable, self.write.cached) == (write.durable, write.cached)
            && is_new(&self.write)
            && is_new(write)
            && others.eq(self.write.pipeline.iter().map(|it| it.id))
    }
}

/// Sends the packets of some files, and takes their acks.
fn send_all(link: &Arc<Link>, way: Way, lanes: &mut [Lane]) {
    let Way { first, write, token, more, lanes: own } = way;
    let opened = match more.is_empty() {
        true => Pipe::open(&link.datanodes, &first, &token, write),
        false => Pipe::open_many(&link.datanodes, &first, (write, &token), &more),
    };
    let mut pipe = match opened {
        Ok(pipe) => pipe,
        Err(failure) => {
            // All learn of it at once; each has its pipeline repaired.
            let same = || TransferFailure::from(io::Error::other(chain(&failure)));
            own.iter().for_each(|index| lanes[*index].writer.flow.opened(Err(same().into())));
            return;
        }
    };
    let mut is_whole = true;
    for index in &own {
        let flow = &mut lanes[*index].writer.flow;
        flow.opened(Ok(()));
        match flow.next_step(Instant::now()) {
            Step::Send(packet) => {
                let sent = pipe.send(packet);
                flow.sent(sent.map_err(MemberFailure::from));
            }
            _ => is_whole = false,
        }
    }
    for index in &own {
        let flow = &mut lanes[*index].writer.flow;
        while let Step::TakeAck { waits } = flow.next_step(Instant::now()) {
            if !waits {
                flow.acked(Ok(None));
                continue;
            }
            let acked = pipe.take_ack();
            is_whole &= acked.is_ok();
            flow.acked(acked.map(|ack| Some((ack, Duration::ZERO))).map_err(MemberFailure::from));
            break;
        }
    }
    if is_whole {
        link.datanodes.give_back(&first, pipe.into_connection());
    }
}

/// Makes one call for each of some files, in one message.
fn answer_all(link: &Arc<Link>, calls: Vec<(usize, Call)>, lanes: &mut [Lane]) {
    let (indexes, calls): (Vec<usize>, Vec<Call>) = calls.into_iter().unzip();
    let answers = link.call(Body::Batch(calls)).and_then(|reply| Ok(reply.try_into()?));
    let answers: Vec<Answer> = answers.unwrap_or_default();
    let mut answers = answers.into_iter();
    for index in indexes {
        let lane = &mut lanes[index];
        match answers.next() {
            Some(Err(refusal)) if refusal.kind.is_transient() => lane.state = State::Alone,
            Some(answer) => {
                let answer = answer.map_err(|refusal| RpcError::Remote(refusal).into());
                lane.writer.flow.answered(answer, Instant::now());
            }
            // The message failed: each tries by itself.
            None => lane.state = State::Alone,
        }
    }
}

impl Lane {
    fn is_together(&self) -> bool {
        matches!(self.state, State::Together)
    }

    /// The call that it waits for; `None` if it has ended, or goes on alone.
    fn next_call(&mut self) -> Option<Call> {
        while self.is_together() {
            match self.writer.flow.next_step(Instant::now()) {
                Step::Call(call, Patience::Usual) => return Some(call),
                Step::Done(ended) => {
                    let ended = ended.map_err(|error| self.writer.error(error));
                    self.state = State::Ended(ended);
                }
                // The connection is not its own.
                Step::GiveBack(_) | Step::HangUp => {}
                Step::Report { block, datanode, fault } => report(block, datanode, fault),
                _ => self.state = State::Alone,
            }
        }
        None
    }

    /// Its outcome.
    fn end(self) -> Result<(), DfsError> {
        match self.state {
            State::Ended(outcome) => outcome,
            State::Together | State::Alone => Err(DfsError::Unexpected),
        }
    }
}
