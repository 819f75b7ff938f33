//! A DataNode: its store on simulated disks, and around it what the daemon's threads do, as steps: the session with the NameNode (`session`), members of
//! pipelines (`receive`), copies that it sends (`send`), recoveries that it leads (`lead`), its scanner and the checks of its disks (`upkeep`).

mod lead;
mod process;
mod receive;
mod send;
mod session;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datanode::error::OperationError;
use datanode::store::{Store, VolumeConfig};
use datanode::transfer::Serving;
use needs::random::Random;
use protocol::namenode::DatanodeInfo;
use protocol::transfer::{Operation, Read, Reply};
use protocol::{BlockId, ErrorKind};
use sys::disk::sim::Machine;
use transport::PacketPool;

use self::process::{For, Process, Session, Upkeep};
pub(crate) use self::process::{IO_TIMEOUT, place_of};
use crate::disks::{DISKS, DiskFault};
use crate::net::{Conn, Message, Outbox, Part, Place, Served, Timer};

/// Bytes of each disk.
const DISK_BYTES: u64 = 64 << 20;
/// Bytes after which the store syncs behind a growing replica.
const SYNC_INTERVAL_BYTES: u64 = 4000;
/// Replicas of at most so many bytes share files: none, most that are written in one piece, or all of those. Each DataNode has one of these.
const SMALL_BYTES_MAX: [u32; 3] = [0, 700, 4096];
/// How often a DataNode looks after its streams.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// The machine of a DataNode, and its process if it runs.
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) machine: Machine,
    /// Of its disks.
    pub(crate) roots: [PathBuf; DISKS],
    /// Disks that return nothing.
    broken: [bool; DISKS],
    small_bytes_max: u32,
    /// Blocks of which a replica had a bit flipped.
    pub(crate) flipped: BTreeSet<BlockId>,
    process: Option<Process>,
    pub(crate) starts: u64,
    /// The store could not be opened although its disks worked, and why.
    pub(crate) refused: Option<String>,
}

impl Node {
    pub(crate) fn new(number: usize, seed: u64) -> Self {
        let machine = Machine::new(seed);
        let roots = [(); DISKS].map(|()| machine.add_disk(DISK_BYTES));
        Node {
            number,
            machine,
            roots,
            broken: [false; DISKS],
            small_bytes_max: SMALL_BYTES_MAX[(seed % SMALL_BYTES_MAX.len() as u64) as usize],
            flipped: BTreeSet::new(),
            process: None,
            starts: 0,
            refused: None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place::Node(self.number)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.process.as_ref().map(|process| &process.store)
    }

    /// All of its disks are out of service: the daemon ends.
    pub(crate) fn is_lost(&self) -> bool {
        self.store().is_some_and(|store| store.is_lost())
    }

    /// Lets a fault happen to a disk; a flipped bit is not its own affair.
    pub(crate) fn harm(&mut self, disk: usize, fault: DiskFault) {
        let root = &self.roots[disk];
        match fault {
            DiskFault::Broken(_) => {
                self.broken[disk] = true;
                self.machine.set_broken(root, true);
            }
            DiskFault::Once(at, fault, _) => self.machine.plan(at, fault),
            DiskFault::Full(free_bytes, _) => {
                let used_bytes = self.machine.used(root);
                self.machine.set_capacity(root, used_bytes + free_bytes);
            }
            DiskFault::Flip => {}
        }
    }

    /// Somebody repairs a disk and makes room on it.
    pub(crate) fn repair(&mut self, disk: usize) {
        let root = &self.roots[disk];
        self.broken[disk] = false;
        self.machine.forget_plan();
        self.machine.repair(root);
        self.machine.set_capacity(root, DISK_BYTES);
    }

    /// No fault happens to its disks any more.
    pub(crate) fn calm(&mut self) {
        (0..DISKS).for_each(|disk| self.repair(disk));
    }

    pub(crate) fn start(&mut self, life: u64, now: Duration, out: &mut Outbox) {
        if self.machine.is_down() {
            self.machine.start();
        }
        let configs = self.roots.each_ref().map(|root| VolumeConfig {
            path: root.join("volume"),
            reserved_bytes: Some(0),
            trash_grace: Duration::from_secs(2),
            bypass_cache: false,
            small_bytes_max: self.small_bytes_max,
        });
        match Store::open(&configs, SYNC_INTERVAL_BYTES, None) {
            Ok(store) => {
                let (place, store) = (self.place(), Arc::new(store));
                let info = info(self.number, &store);
                self.starts += 1;
                self.process = Some(Process {
                    place,
                    store,
                    session: Session::new(info, life),
                    receptions: BTreeMap::new(),
                    sendings: BTreeMap::new(),
                    leads: Vec::new(),
                    asked: BTreeMap::new(),
                    // Numbers of an earlier life are no answer.
                    next: life << 32,
                    now,
                    upkeep: Upkeep::new(now),
                });
                out.set(Duration::ZERO, Timer::Beat);
                out.set(CHECK_INTERVAL, Timer::Check);
            }
            Err(_) if self.broken.contains(&true) => self.machine.kill(),
            Err(error) => self.refused = Some(error.to_string()),
        }
    }

    /// The process is killed; with `power`, its machine loses what is not on disk.
    pub(crate) fn crash(&mut self, power: bool) {
        match power {
            true => self.machine.cut_power(),
            false => self.machine.kill(),
        }
        if let Some(process) = self.process.take() {
            process.store.forget_behind();
        }
    }

    pub(crate) fn on_message(
        &mut self,
        message: Message,
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) {
        let Some(process) = &mut self.process else { return };
        process.now = now;
        match message {
            Message::Said { number, said } => process.on_said(number, said, out),
            Message::Ask { from, number, operation } => {
                process.on_ask(from, number, *operation, out);
            }
            Message::Told { number, answer } => process.on_told(number, answer, out),
            Message::Stream { conn, from, part } => process.on_part(conn, from, part, out),
            Message::Client { .. }
            | Message::Node { .. }
            | Message::Served { .. }
            | Message::Job { .. } => {}
        }
        process.run_behind(random);
    }

    pub(crate) fn on_timer(
        &mut self,
        timer: &Timer,
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) {
        let Some(process) = &mut self.process else { return };
        process.now = now;
        match timer {
            Timer::Beat => process.on_beat(out),
            Timer::Check => {
                process.check_streams(out);
                process.look_after_store(out);
                out.set(CHECK_INTERVAL, Timer::Check);
            }
            Timer::Resend(number) => process.on_silence(*number, out),
            _ => {}
        }
        process.run_behind(random);
        process.report(out);
    }
}

impl Process {
    /// Some of what production leaves to threads happens now, the rest later.
    fn run_behind(&self, random: &mut Random) {
        while random.one_in(2) && self.store.run_behind() {}
    }

    fn next_number(&mut self, why: For) -> u64 {
        self.next += 1;
        self.asked.insert(self.next, why);
        self.next
    }

    fn next_conn(&mut self) -> Conn {
        self.next += 1;
        let Place::Node(number) = self.place else { return Conn(self.next) };
        Conn(((number as u64 + 1) << 48) | self.next)
    }

    fn on_told(&mut self, number: u64, answer: Result<Reply, ErrorKind>, out: &mut Outbox) {
        if let Some(For::Lead(lead)) = self.asked.remove(&number) {
            self.on_lead_told(lead, answer, out);
        }
    }

    /// A request that has no stream of its own, or becomes one.
    fn on_ask(&mut self, from: Place, number: u64, operation: Operation, out: &mut Outbox) {
        let answer = match operation {
            operation if !operation.needs().is_permitted() => Err(ErrorKind::PermissionDenied),
            Operation::ReplicaState { block, stamp, .. } => {
                self.stop_writer(block);
                let state = self.store.begin_recovery(block, stamp);
                state.map(Reply::from).map_err(|_| ErrorKind::Storage)
            }
            Operation::UpdateReplica { block, stamp, length, .. } => {
                let updated = self.store.update(block, stamp, length);
                updated.map(|()| Reply::Done).map_err(|_| ErrorKind::Storage)
            }
            Operation::Transfer { .. } | Operation::CompleteReplica { .. } => {
                match self.begin_sending(&operation, (from, number), out) {
                    Ok(()) => return,
                    Err(kind) => Err(kind),
                }
            }
            Operation::Read(read) => {
                let answer = self.serve(&read);
                out.send(from, Message::Served { number, answer });
                return self.report(out);
            }
            _ => Err(ErrorKind::InvalidArgument),
        };
        out.send(from, Message::Told { number, answer });
        self.report(out);
    }

    /// The first packet of what a reader wants; blocks are smaller than a packet.
    fn serve(&self, read: &Read) -> Result<Served, ErrorKind> {
        let mut packet = PacketPool::default().take();
        let served = Serving::begin(&self.store, read).and_then(|mut serving| {
            serving.next_packet(&mut packet)?;
            Ok(serving.length())
        });
        let length = served.map_err(|error| OperationError::from(error).to_remote().kind)?;
        let (data, crcs) = (packet.data().to_vec(), packet.crcs().to_vec());
        Ok(Served { length, header: packet.header, data, crcs })
    }

    fn on_part(&mut self, conn: Conn, from: Place, part: Part, out: &mut Outbox) {
        // A DataNode may be the target of its own copy, and has both ends of the stream then.
        let is_for_receiver = matches!(part, Part::Write(_) | Part::Packet(..));
        if self.sendings.contains_key(&conn) && !is_for_receiver {
            self.on_sending(conn, part, out);
        } else {
            self.on_reception(conn, from, part, out);
        }
        self.report(out);
    }

    /// Whoever takes over a replica ends its writer first.
    fn stop_writer(&mut self, block: BlockId) {
        let writing = self.receptions.iter().find(|(_, reception)| reception.writes(block));
        if let Some(conn) = writing.map(|(conn, _)| *conn) {
            self.receptions.remove(&conn);
        }
    }
}

fn info(number: usize, store: &Store) -> DatanodeInfo {
    DatanodeInfo {
        id: store.datanode(),
        host: format!("node{number}"),
        transfer_address: format!("node{number}:9866"),
        http_address: format!("node{number}:9864"),
        rack: if number.is_multiple_of(2) { "/even" } else { "/odd" }.to_owned(),
        ..DatanodeInfo::default()
    }
}
