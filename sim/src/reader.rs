//! A client that reads files, closed ones and ones being written: the client's own [`Reader`], driven by messages instead of sockets.
//!
//! It opens a file that somebody else writes, finds out how long it is, and reads a range of it. What it is promised when it opens the file is in [`Expected`];
//! every byte that it gets is compared with what was written.
//!
//! It does not assemble a block from the good chunks of damaged replicas: such a read fails.

use std::time::Duration;

use flow::reader::{Attempt, Failed, Reader as Flow, Said as Length, Step, VisibleLength};
use flow::writer::Patience;
use flow::writer::simulated::CallError;
use namenode::sim::Said;
use needs::random::Random;
use protocol::ErrorKind;
use protocol::checksum::{self, CHUNK_BYTES};
use protocol::namenode::{Call, DatanodeInfo, LocatedBlock, LocatedBlocks, Reply};
use protocol::transfer::{Operation, Read};

use crate::caller::{Alarm, Caller};
use crate::net::{Message, Outbox, Place, Served, Timer};
use crate::node::{IO_TIMEOUT, place_of};
use crate::oracle::{Expected, Oracle};

/// Once faults have been over for so long, every DataNode has registered and reported: a read of a closed file succeeds.
const SETTLED_AFTER: Duration = Duration::from_secs(20);

/// What the reader waits for.
#[derive(Debug)]
enum Waits {
    /// It reads nothing and goes on by its timer.
    Idle,
    /// The answer to a call.
    Call,
    /// A DataNode's answer to the message with this number.
    Served(u64),
    /// The end of a pause.
    Pause,
}

/// What it does with the file.
#[derive(Debug)]
enum Stage {
    /// It asks the NameNode where the blocks are.
    Locating,
    /// It asks DataNodes how long the last block is: the one at this place next.
    Measuring { located: LocatedBlocks, visible: Option<VisibleLength>, place: usize },
    /// It reads.
    Reading(Box<Reading>),
}

/// A range being read.
#[derive(Debug)]
struct Reading {
    flow: Flow,
    attempt: Attempt,
    begin: u64,
    /// Where the next byte is.
    offset: u64,
    end: u64,
    source: Option<Source>,
}

/// The replica that is open.
#[derive(Debug)]
struct Source {
    block: LocatedBlock,
    datanode: DatanodeInfo,
    at: u64,
    rest: u64,
}

/// A file being read.
#[derive(Debug)]
struct Task {
    expected: Expected,
    /// How often DataNodes were asked for the length.
    asked: usize,
    /// When it was begun.
    since: Duration,
    stage: Stage,
}

pub(crate) struct Reader {
    caller: Caller,
    task: Option<Task>,
    waits: Waits,
    alarm: Alarm,
    /// When faults ended.
    pub(crate) calm_since: Option<Duration>,
}

impl Reader {
    pub(crate) fn new(number: usize, life: u64) -> Self {
        Reader {
            caller: Caller::new(Place::Reader(number), life),
            task: None,
            waits: Waits::Idle,
            alarm: Alarm::new(life),
            calm_since: None,
        }
    }

    pub(crate) fn start(&mut self, random: &mut Random, out: &mut Outbox) {
        self.alarm.set(random.millis(1..2000), out);
    }

    pub(crate) fn on_timer(
        &mut self,
        timer: &Timer,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Go(generation) if self.alarm.is(*generation) => match self.waits {
                Waits::Idle => self.open((now, random), oracle, out),
                Waits::Pause => self.paused((now, random), oracle, out),
                Waits::Served(_) => {
                    self.served(Err(ErrorKind::Unavailable), (now, random), oracle, out);
                }
                Waits::Call => {}
            },
            Timer::Resend(sent) => {
                if let Some(answer) = self.caller.on_silence(*sent, now, out) {
                    self.answered(answer, (now, random), oracle, out);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn on_message(
        &mut self,
        message: Message,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        match message {
            Message::Said { number, said: Said::Client(answer) } => {
                if let Some(answer) = self.caller.on_said(number, answer, (now, random), out) {
                    self.answered(answer, (now, random), oracle, out);
                }
            }
            Message::Served { number, answer } => {
                if matches!(self.waits, Waits::Served(sent) if sent == number) {
                    self.served(answer, (now, random), oracle, out);
                }
            }
            Message::Told { number, answer } => {
                if matches!(self.waits, Waits::Served(sent) if sent == number) {
                    let kind = answer.err().unwrap_or(ErrorKind::InvalidArgument);
                    self.served(Err(kind), (now, random), oracle, out);
                }
            }
            _ => {}
        }
    }

    /// Chooses a file.
    fn open(&mut self, (now, random): (Duration, &mut Random), oracle: &Oracle, out: &mut Outbox) {
        let Some(expected) = oracle.expected_of_any(random) else {
            return self.alarm.set(random.millis(100..1000), out);
        };
        self.task = Some(Task { expected, asked: 0, since: now, stage: Stage::Locating });
        self.locate(now, oracle, out);
    }

    fn locate(&mut self, now: Duration, oracle: &Oracle, out: &mut Outbox) {
        let Some(task) = &self.task else { return };
        let path = oracle.path(task.expected.file);
        let call = Call::Locations { path, offset: 0, length: u64::MAX };
        self.waits = Waits::Call;
        self.caller.call(call, Patience::Usual, now, out);
    }

    fn answered(
        &mut self,
        answer: Result<Reply, CallError>,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(task) = &mut self.task else { return };
        match (&mut task.stage, answer) {
            (Stage::Locating, Ok(Reply::Located(located))) => {
                let last = located.blocks.last().filter(|block| block.open && located.status.open);
                let visible =
                    last.map(|block| VisibleLength::new(block.length, block.has_unseen_members));
                task.stage = Stage::Measuring { located, visible, place: 0 };
                self.measure((now, random), oracle, out);
            }
            (Stage::Locating, Err(CallError(Some(ErrorKind::NotFound)))) => {
                oracle.check_absent(&task.expected);
                self.end(None, random, oracle, out);
            }
            (Stage::Reading(reading), Ok(Reply::Located(located))) => {
                let found = (located.status.inode, located.blocks);
                match reading.flow.fetched(&mut reading.attempt, found) {
                    Ok(()) => self.read((now, random), oracle, out),
                    Err(error) => {
                        self.end(Some(format!("{error:?}")), random, oracle, out);
                    }
                }
            }
            (_, answer) => self.end(Some(format!("{answer:?}")), random, oracle, out),
        }
    }

    /// Asks for the length of a block that is written, one DataNode after the other.
    fn measure(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(Task { stage: Stage::Measuring { located, visible, place }, asked, .. }) =
            &mut self.task
        else {
            return;
        };
        let block = located.blocks.last().filter(|_| visible.is_some());
        let Some(block) = block else { return self.measured(true, (now, random), oracle, out) };
        if let Some(datanode) = block.replicas.get(*place) {
            let (id, stamp, token) = (block.id, block.stamp, block.token.name);
            let read = Read { block: id, stamp, token, offset: u64::MAX, length: 0 };
            let datanode = datanode.clone();
            return self.ask(&datanode, read, out);
        }
        let length = visible.take().and_then(VisibleLength::end);
        let pause = flow::reader::length_pause(*asked);
        *asked += 1;
        match (length, pause) {
            (Some(length), _) => self.has_length(length, (now, random), oracle, out),
            (None, Some(pause)) => {
                self.waits = Waits::Pause;
                self.alarm.set(pause.mul_f64(random.within(500..1000) as f64 / 1000.0), out);
            }
            (None, None) => self.measured(false, (now, random), oracle, out),
        }
    }

    fn ask(&mut self, datanode: &DatanodeInfo, read: Read, out: &mut Outbox) {
        let (from, number) = (self.caller.place(), self.caller.number());
        let operation = Box::new(Operation::Read(read));
        if let Some(target) = place_of(datanode) {
            out.send(target, Message::Ask { from, number, operation });
        }
        self.waits = Waits::Served(number);
        self.alarm.set(IO_TIMEOUT, out);
    }

    fn has_length(
        &mut self,
        length: u64,
        at: (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        if let Some(Task { stage: Stage::Measuring { located, .. }, .. }) = &mut self.task
            && let Some(last) = located.blocks.last_mut()
        {
            last.length = length;
        }
        self.measured(true, at, oracle, out);
    }

    /// The length is known; from DataNodes if they had to be asked and `is_exact`.
    fn measured(
        &mut self,
        is_exact: bool,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(task) = &mut self.task else { return };
        let Stage::Measuring { located, .. } = &mut task.stage else { return };
        let flow = Flow::new(located.status.inode, std::mem::take(&mut located.blocks));
        oracle.check_seen(&task.expected, flow.len(), is_exact);
        let offset = random.within(0..flow.len().max(1));
        let end = match random.one_in(2) {
            true => flow.len(),
            false => offset + random.within(0..flow.len() - offset + 1),
        };
        let offset = if random.one_in(2) { 0 } else { offset };
        let Some(attempt) = flow.begin(offset) else {
            return self.end(None, random, oracle, out);
        };
        let reading = Reading { flow, attempt, begin: offset, offset, end, source: None };
        task.stage = Stage::Reading(Box::new(reading));
        self.read((now, random), oracle, out);
    }

    fn paused(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        match self.task.as_mut().map(|task| &mut task.stage) {
            Some(Stage::Reading(reading)) => {
                reading.attempt.paused();
                self.read((now, random), oracle, out);
            }
            Some(stage) => {
                *stage = Stage::Locating;
                self.locate(now, oracle, out);
            }
            None => {}
        }
    }

    /// Does what the reader's flow says until it waits for something.
    fn read(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(task) = &mut self.task else { return };
        let Stage::Reading(reading) = &mut task.stage else { return };
        let Reading { flow, attempt, offset, end, source, .. } = reading.as_mut();
        if *offset >= *end {
            return self.end(None, random, oracle, out);
        }
        loop {
            match flow.next_step(attempt) {
                Step::Open { block, datanode } => {
                    let (block, datanode) = (block.clone(), datanode.clone());
                    *source = Some(Source { block, datanode, at: 0, rest: 0 });
                    flow.opened(attempt);
                }
                Step::Read { at, rest } => {
                    let Some(open) = source else { return };
                    (open.at, open.rest) = (at, rest);
                    let (block, stamp) = (open.block.id, open.block.stamp);
                    let token = open.block.token.name;
                    let read = Read { block, stamp, token, offset: at, length: rest };
                    let datanode = open.datanode.clone();
                    return self.ask(&datanode, read, out);
                }
                Step::Pause(pause) => {
                    self.waits = Waits::Pause;
                    let pause = pause.mul_f64(random.within(500..1000) as f64 / 1000.0);
                    return self.alarm.set(pause, out);
                }
                Step::Fetch { offset } => {
                    let path = oracle.path(task.expected.file);
                    let call = Call::Locations { path, offset, length: 1 };
                    self.waits = Waits::Call;
                    return self.caller.call(call, Patience::Usual, now, out);
                }
                Step::Salvage { block, .. } => {
                    let why = format!("{} is damaged everywhere", block.id);
                    return self.end(Some(why), random, oracle, out);
                }
                Step::End(error) => {
                    return self.end(Some(format!("{error:?}")), random, oracle, out);
                }
            }
        }
    }

    /// A DataNode has answered, or is silent.
    fn served(
        &mut self,
        answer: Result<Served, ErrorKind>,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(task) = &mut self.task else { return };
        match &mut task.stage {
            Stage::Locating => {}
            Stage::Measuring { visible, place, .. } => {
                *place += 1;
                let said = match answer {
                    Ok(served) => Length::Length(served.length),
                    Err(ErrorKind::NotFound) => Length::Absent,
                    Err(_) => Length::Nothing,
                };
                match visible.as_mut().and_then(|visible| visible.take(said)) {
                    Some(length) => self.has_length(length, (now, random), oracle, out),
                    None => self.measure((now, random), oracle, out),
                }
            }
            Stage::Reading(reading) => {
                let Reading { flow, attempt, offset, end, source, .. } = reading.as_mut();
                let open = source.as_ref().expect("it has asked for bytes of a replica");
                match taken(&answer, open.at, open.rest) {
                    Ok(bytes) => {
                        let wanted = bytes.len().min((*end - *offset) as usize);
                        oracle.check_bytes(&task.expected, *offset, &bytes[..wanted]);
                        *offset += wanted as u64;
                        if let Some(next) = flow.begin(*offset) {
                            *attempt = next;
                        }
                    }
                    Err(is_damaged) => {
                        *source = None;
                        if let Some(Failed { replica, report: true }) = flow.failed(is_damaged) {
                            self.caller.tell(Call::ReportBadReplicas(vec![replica]), out);
                        }
                    }
                }
                self.read((now, random), oracle, out);
            }
        }
    }

    /// The read is over; with a reason if it has failed.
    fn end(
        &mut self,
        failed: Option<String>,
        random: &mut Random,
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        if let Some(task) = self.task.take() {
            let is_settled = self.calm_since.is_some_and(|calm| task.since > calm + SETTLED_AFTER);
            let byte_count = match &task.stage {
                Stage::Reading(reading) => reading.offset - reading.begin,
                Stage::Locating | Stage::Measuring { .. } => 0,
            };
            oracle.read_ended(&task.expected, failed.map_or(Ok(byte_count), Err), is_settled);
        }
        self.waits = Waits::Idle;
        self.alarm.set(random.millis(10..2500), out);
    }
}

/// The bytes of an answer from where they are wanted, as a client takes them: at most what is left of the block, and only if all of their chunks match. The
/// error says whether the replica is damaged.
fn taken(answer: &Result<Served, ErrorKind>, at: u64, rest: u64) -> Result<&[u8], bool> {
    let served = answer.as_ref().map_err(|_| false)?;
    let begin = at - at % CHUNK_BYTES as u64;
    let is_wanted = served.header.offset == begin && served.length > at;
    if !is_wanted || served.data.is_empty() {
        return Err(false);
    }
    checksum::verify(&served.data, &served.crcs).map_err(|_| true)?;
    let skip = (at - begin) as usize;
    let end = served.data.len().min(skip + rest as usize);
    served.data.get(skip..end).filter(|bytes| !bytes.is_empty()).ok_or(false)
}

impl std::fmt::Display for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "reader {:?}, {:?}, {:?}", self.caller.place(), self.task, self.waits)
    }
}

#[cfg(test)]
mod tests {
    use protocol::transfer::PacketHeader;

    use super::*;
    use crate::content::byte_at;

    #[test]
    fn bytes_are_taken_if_they_match_and_lie_where_they_are_wanted() {
        let data: Vec<u8> = (0..700).map(|at| byte_at(7, at)).collect();
        let mut crcs = Vec::new();
        checksum::append_crcs(&data, &mut crcs);
        let header = PacketHeader { data_bytes: 700, ..PacketHeader::default() };
        let served = Served { length: 700, header, data, crcs };
        assert_eq!(taken(&Ok(served.clone()), 100, 50), Ok(&served.data[100..150]));
        assert_eq!(taken(&Ok(served.clone()), 600, 100), Err(false), "of another chunk");
        assert_eq!(taken(&Err(ErrorKind::NotFound), 0, 1), Err(false));
        let mut flipped = served;
        flipped.data[650] ^= 1;
        assert_eq!(taken(&Ok(flipped), 100, 50), Err(true));
    }
}
