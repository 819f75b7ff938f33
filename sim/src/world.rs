//! The world of a run: the queue of what happens, the processes, and the end (`check`).

mod check;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use host::Now;
use namenode::Config;
use needs::random::Random;
use protocol::ErrorKind;

use crate::client::{BLOCK_BYTES, Client};
use crate::disks::{self, DISKS, DiskFault};
use crate::faults::{self, Fault, Swap};
use crate::jobs::{self, Jobs};
use crate::keeper::Keeper;
use crate::master::MasterProcess;
use crate::net::{Message, Net, Outbox, Part, Place, Timer};
use crate::node::Node;
use crate::oracle::Oracle;
use crate::reader::Reader;
use crate::rot;

const NODES: usize = 5;
const CLIENTS: usize = 3;
/// One history in so many has jobs.
const WITH_JOBS: u64 = 2;
const READERS: usize = 2;
/// How long faults happen.
const FAULTS_FOR: Duration = Duration::from_secs(60);
/// After that much without faults, everything must be in order.
const CALM_FOR: Duration = Duration::from_secs(240);
/// How often the end is looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The wall clock's time at the begin, milliseconds.
const BEGIN_MS: u64 = 1_700_000_000_000;
/// Prints all that happens.
const TRACE_VARIABLE: &str = "HANNO_SIM_TRACE";

/// What a run, or several, came to.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Report {
    /// Files that were created.
    pub files: u64,
    /// Closes that were acknowledged.
    pub closed: u64,
    /// Syncs that were acknowledged.
    pub synced: u64,
    /// Reads that got all the bytes that they wanted, at least one.
    pub read: u64,
    /// Changes of the tree that were acknowledged.
    pub changed: u64,
    /// Bits of replicas that flipped.
    pub flipped: u64,
    /// Things that happened.
    pub events: u64,
    /// Starts of the NameNode.
    pub master_starts: u64,
    /// Starts of DataNodes.
    pub node_starts: u64,
    /// Jobs that ended.
    pub jobs: u64,
    /// Those that succeeded, failed, were killed.
    pub job_ends: [u64; 3],
    /// Starts of the JobTracker.
    pub tracker_starts: u64,
    /// A number that follows from all that happened.
    pub trace: u64,
}

impl Report {
    /// Adds another run.
    pub fn add(&mut self, other: &Report) {
        self.files += other.files;
        self.closed += other.closed;
        self.synced += other.synced;
        self.read += other.read;
        self.changed += other.changed;
        self.flipped += other.flipped;
        self.events += other.events;
        self.master_starts += other.master_starts;
        self.node_starts += other.node_starts;
        self.jobs += other.jobs;
        let ends = self.job_ends.iter_mut().zip(other.job_ends);
        ends.for_each(|(all, more)| *all += more);
        self.tracker_starts += other.tracker_starts;
        self.trace ^= other.trace;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { files, closed, synced, read, changed, flipped, events, .. } = self;
        let Report { master_starts, node_starts, .. } = self;
        let Report { jobs, job_ends: [succeeded, failed, killed], tracker_starts, trace, .. } =
            self;
        write!(
            f,
            "{files} files, {closed} closes, {synced} syncs, {read} reads, {changed} changes of names, {flipped} flipped bits, {jobs} jobs ({succeeded} succeeded, {failed} failed, {killed} killed), {events} events, {master_starts} starts of NameNodes, {node_starts} of DataNodes, {tracker_starts} of JobTrackers, trace {trace:x}"
        )
    }
}

/// Something that will happen.
enum Happening {
    /// For a process in the life of its in which it was sent: connections end with a process, and a signature names one start of a daemon.
    Message(Place, u64, Message),
    /// For a process in this life of its.
    Timer(Place, u64, Timer),
    Fault(Fault),
    Swap(Swap),
    /// A process is started again, unless something else has started it.
    Restart(Place, u64),
    /// Somebody sees to a disk of a DataNode.
    Repair(usize, usize),
}

struct World {
    now: Duration,
    queue: BTreeMap<(Duration, u64), Happening>,
    sequence: u64,
    random: Random,
    net: Net,
    master: MasterProcess,
    nodes: Vec<Node>,
    clients: Vec<Option<Client>>,
    jobs: Jobs,
    readers: Vec<Reader>,
    keeper: Keeper,
    lives: BTreeMap<Place, u64>,
    oracle: Oracle,
    base: Instant,
    events: u64,
    trace: u64,
    has_faults: bool,
    /// The DataNode whose disks failed last, and when all of them are in use again.
    fencing: (usize, Duration),
    flip_count: u64,
    prints: bool,
}

/// Runs the history of a seed.
///
/// # Panics
/// If something that was promised is not so, or work is left at the end.
pub fn run(seed: u64) -> Report {
    let mut world = World::new(seed);
    world.begin();
    world.pass(FAULTS_FOR);
    world.calm();
    let mut left = Err("nobody looked".to_owned());
    while left.is_err() && world.now < FAULTS_FOR + CALM_FOR {
        world.pass(LOOK_INTERVAL);
        left = world.check();
    }
    if let Err(left) = left {
        panic!("seed {seed}, {:?} after the faults: {left}", world.now - FAULTS_FOR);
    }
    world.report()
}

fn config() -> Config {
    Config {
        block_size: BLOCK_BYTES,
        block_size_min: 512,
        heartbeat_ms: 300,
        stale_ms: 2000,
        dead_ms: 5000,
        lease_soft_ms: 8000,
        lease_hard_ms: 20_000,
        recovery_retry_ms: 3000,
        // Longer than anybody is away.
        recovery_wait_max_ms: 90_000,
        replication_timeout_ms: 6000,
        arrival_timeout_ms: 3000,
        delete_retry_ms: 2000,
        unknown_grace_ms: 1000,
        safe_mode_extension_ms: 0,
        ..Config::default()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let nodes = (0..NODES).map(|number| Node::new(number, random.bits())).collect();
        let jobs = Jobs::new(random.one_in(WITH_JOBS));
        World {
            now: Duration::ZERO,
            queue: BTreeMap::new(),
            sequence: 0,
            random,
            net: Net::default(),
            master: MasterProcess::new(config()),
            nodes,
            clients: (0..CLIENTS).map(|_| None).collect(),
            jobs,
            readers: (0..READERS).map(|number| Reader::new(number, 1)).collect(),
            keeper: Keeper::new(),
            lives: BTreeMap::new(),
            oracle: Oracle::default(),
            base: Instant::now(),
            events: 0,
            trace: seed,
            has_faults: true,
            fencing: (0, Duration::ZERO),
            flip_count: 0,
            prints: std::env::var_os(TRACE_VARIABLE).is_some(),
        }
    }

    fn report(&self) -> Report {
        let (tracker_starts, [jobs, job_ends @ ..]) = self.jobs.counts();
        Report {
            files: self.oracle.files.len() as u64,
            closed: self.oracle.closed_count,
            synced: self.oracle.synced_count,
            read: self.oracle.read_count,
            changed: self.keeper.change_count,
            flipped: self.flip_count,
            events: self.events,
            master_starts: self.master.starts,
            node_starts: self.nodes.iter().map(|node| node.starts).sum(),
            jobs,
            job_ends,
            tracker_starts,
            trace: self.trace,
        }
    }

    fn schedule(&mut self, at: Duration, happening: Happening) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), happening);
    }

    fn begin(&mut self) {
        self.start(Place::Master);
        (0..NODES).for_each(|number| self.start(Place::Node(number)));
        (0..CLIENTS).for_each(|number| self.start(Place::Client(number)));
        (0..READERS).for_each(|number| self.start(Place::Reader(number)));
        self.start(Place::Keeper);
        self.jobs.places().into_iter().for_each(|place| self.start(place));
        let (after, fault) = self.draw_fault();
        self.schedule(after + Duration::from_secs(3), Happening::Fault(fault));
    }

    fn draw_fault(&mut self) -> (Duration, Fault) {
        match self.jobs.has_jobs() && self.random.one_in(3) {
            true => jobs::draw_fault(&mut self.random),
            false => faults::draw((NODES, CLIENTS, READERS), &mut self.random),
        }
    }

    fn life(&self, place: Place) -> u64 {
        self.lives.get(&place).copied().unwrap_or_default()
    }

    fn host_now(&self) -> Now {
        Now { at: self.now, wall_ms: BEGIN_MS + self.now.as_millis() as u64 }
    }

    /// Lets a time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), happening) = entry.remove_entry();
            let step = at.saturating_sub(self.now);
            self.nodes.iter().for_each(|node| node.machine.advance(step));
            self.now = self.now.max(at);
            self.oracle.disk_failing(self.now < self.fencing.1);
            self.events += 1;
            self.handle(happening);
        }
        self.now = end;
    }

    /// Mixes what happens into the trace; with `HANNO_SIM_TRACE` it is also printed.
    fn note(&mut self, what: impl fmt::Debug) {
        let moment = self.now.as_nanos() as u64 ^ self.sequence.rotate_left(40);
        self.trace = (self.trace ^ moment).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        if self.prints {
            println!("{:>12.6} {what:?}", self.now.as_secs_f64());
        }
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Message(to, life, message) => {
                self.note((to, &message));
                self.deliver((to, life), message);
            }
            Happening::Timer(place, life, timer) if self.life(place) == life => {
                self.on_timer(place, &timer);
            }
            Happening::Timer(..) => {}
            Happening::Fault(fault) if self.has_faults => {
                self.note(fault);
                self.on_fault(fault);
                let (after, next) = self.draw_fault();
                let at = self.now + after;
                self.schedule(at, Happening::Fault(next));
            }
            Happening::Swap(swap) if self.has_faults => {
                self.note(swap);
                self.swap(swap);
            }
            Happening::Fault(_) | Happening::Swap(_) => {}
            Happening::Restart(place, life) => {
                if self.life(place) == life {
                    self.start(place);
                }
            }
            Happening::Repair(number, disk) => {
                self.note(("repair", number, disk));
                self.nodes[number].repair(disk);
            }
        }
    }

    fn is_running(&self, place: Place) -> bool {
        match place {
            Place::Master => self.master.is_running(),
            Place::Node(number) => self.nodes[number].is_running(),
            Place::Client(number) => self.clients[number].is_some(),
            // They live as long as the run.
            Place::Reader(_) => self.life(place) > 0,
            Place::Keeper => self.keeper.is_running,
            place => self.jobs.is_running(place),
        }
    }

    fn start(&mut self, place: Place) {
        if self.is_running(place) {
            return;
        }
        let life = self.life(place) + 1;
        self.lives.insert(place, life);
        self.note(("start", place, life));
        let (mut out, now) = (Outbox::default(), self.host_now());
        match place {
            Place::Master => self.master.start(now, &mut self.random, &mut out),
            Place::Node(number) => {
                self.nodes[number].start(life, self.now, &mut out);
                if !self.nodes[number].is_running() {
                    let at = self.now + self.random.millis(500..2000);
                    self.schedule(at, Happening::Restart(place, life));
                }
            }
            Place::Client(number) => {
                let mut client = Client::new(number, life, self.base);
                client.is_stopping = !self.has_faults;
                client.start(&mut self.random, &mut out);
                self.clients[number] = Some(client);
            }
            Place::Reader(number) => self.readers[number].start(&mut self.random, &mut out),
            Place::Keeper => self.keeper.start(life, (self.now, &mut self.random), &mut out),
            place => self.jobs.start((place, life), now, &mut self.random, &mut out),
        }
        self.send(place, out);
    }

    fn kill(&mut self, place: Place, power: bool) {
        self.lives.entry(place).and_modify(|life| *life += 1);
        match place {
            Place::Master => self.master.crash(&mut self.random),
            Place::Node(number) => {
                self.nodes[number].crash(power);
                if power {
                    self.oracle.power_cut();
                }
            }
            Place::Client(number) => self.clients[number] = None,
            Place::Reader(_) => {}
            Place::Keeper => self.keeper.crash(self.now),
            place => self.jobs.crash(place, &mut self.random),
        }
    }

    fn deliver(&mut self, (to, life): (Place, u64), message: Message) {
        let mut out = Outbox::default();
        let now = self.host_now();
        if !self.is_running(to) || self.life(to) != life {
            // The machine answers for a process that has died, if it runs.
            let is_dark =
                matches!(to, Place::Node(number) if self.nodes[number].machine.has_no_power());
            if let Some((back, refusal)) = Jobs::refuse(to, &message) {
                out.send(back, refusal);
            }
            match message {
                Message::Stream { conn, from, part } if !is_dark && !matches!(part, Part::End) => {
                    out.stream(from, to, conn, Part::End);
                }
                Message::Ask { from, number, .. } if !is_dark => {
                    let answer = Err(ErrorKind::Unavailable);
                    out.send(from, Message::Told { number, answer });
                }
                _ => {}
            }
            return self.send(to, out);
        }
        let random = &mut self.random;
        match to {
            Place::Master => self.master.on_message(message, now, &mut out),
            Place::Node(number) => {
                self.nodes[number].on_message(message, (self.now, random), &mut out);
                rot::check_bad(&self.nodes[number], &out);
                if !self.look_after(number) {
                    return;
                }
            }
            Place::Client(number) => {
                if let Some(client) = &mut self.clients[number] {
                    client.on_message(message, (self.now, random), &mut self.oracle, &mut out);
                }
            }
            Place::Reader(number) => {
                let reader = &mut self.readers[number];
                reader.on_message(message, (self.now, random), &mut self.oracle, &mut out);
            }
            Place::Keeper => self.keeper.on_message(message, (self.now, random), &mut out),
            place => self.jobs.on_message((place, message), now, random, &mut out),
        }
        self.send(to, out);
    }

    fn on_timer(&mut self, place: Place, timer: &Timer) {
        let (mut out, now) = (Outbox::default(), self.host_now());
        let random = &mut self.random;
        match place {
            Place::Master => self.master.on_timer(timer, now, random, &mut out),
            Place::Node(number) => {
                self.nodes[number].on_timer(timer, (self.now, random), &mut out);
                rot::check_bad(&self.nodes[number], &out);
                if !self.look_after(number) {
                    return;
                }
            }
            Place::Client(number) => {
                if let Some(client) = &mut self.clients[number] {
                    client.on_timer(timer, (self.now, random), &mut self.oracle, &mut out);
                }
            }
            Place::Reader(number) => {
                let reader = &mut self.readers[number];
                reader.on_timer(timer, (self.now, random), &mut self.oracle, &mut out);
            }
            Place::Keeper => {
                self.keeper.on_timer(timer, (self.now, random), &mut self.oracle, &mut out);
            }
            place => self.jobs.on_timer((place, timer), now, random, &mut out),
        }
        self.send(place, out);
    }

    /// Puts what a process wants on its way.
    fn send(&mut self, from: Place, out: Outbox) {
        for (to, message) in out.messages {
            let link = (from, to);
            let arrivals = self.net.arrivals(link, &message, self.now, &mut self.random);
            let life = self.life(to);
            for at in arrivals {
                self.schedule(at, Happening::Message(to, life, message.clone()));
            }
        }
        let life = self.life(from);
        for (after, timer) in out.timers {
            let at = self.now + after;
            self.schedule(at, Happening::Timer(from, life, timer));
        }
    }

    fn on_fault(&mut self, fault: Fault) {
        let (place, time) = match fault {
            Fault::Kill(place, time) => (place, time),
            Fault::PowerCut(number, time) => (Place::Node(number), time),
            Fault::Cut(from, to) => return self.net.cut(from, to),
            Fault::Slow(time) => return self.net.jitter = time,
            Fault::Lossy(loss) => return self.net.loss = loss,
            Fault::Heal => return self.net.heal(),
            Fault::Disk(number, disk, fault) => return self.harm(number, disk, fault),
            Fault::LeftBehind(swap, time) => {
                self.net.isolate(Place::Node(swap.node), true);
                return self.schedule(self.now + time, Happening::Swap(swap));
            }
        };
        self.end(place, matches!(fault, Fault::PowerCut(..)), time);
    }

    /// A process dies and is started again after this time.
    fn end(&mut self, place: Place, power: bool, time: Duration) {
        if self.is_running(place) {
            self.kill(place, power);
            let (life, at) = (self.life(place), self.now + time);
            self.schedule(at, Happening::Restart(place, life));
        }
    }

    fn swap(&mut self, Swap { node, client, time }: Swap) {
        self.net.isolate(Place::Node(node), false);
        self.end(Place::Client(client), false, time);
        (0..NODES).filter(|other| *other != node).for_each(|other| {
            self.end(Place::Node(other), false, time);
        });
    }

    /// A fault happens to a disk of a DataNode, unless replication would not bear it now.
    fn harm(&mut self, number: usize, disk: usize, fault: DiskFault) {
        if fault == DiskFault::Flip {
            if rot::flip(&mut self.nodes, number, &mut self.random) {
                self.flip_count += 1;
            }
            return;
        }
        let (now, lasts) = (self.now, fault.lasts().unwrap_or_default());
        if fault.may_fence() {
            let (other, until) = self.fencing;
            if other != number && now < until {
                return;
            }
            self.fencing = (number, until.max(now + lasts + disks::BACK_AFTER));
        }
        self.nodes[number].harm(disk, fault);
        (0..DISKS).for_each(|disk| self.schedule(now + lasts, Happening::Repair(number, disk)));
    }

    /// A DataNode may have ended, or its machine gone down, in the middle of what it did.
    fn look_after(&mut self, number: usize) -> bool {
        let (node, place) = (&self.nodes[number], Place::Node(number));
        let (is_down, has_no_power) = (node.machine.is_down(), node.machine.has_no_power());
        if !node.is_running() || !(is_down || node.is_lost()) {
            return true;
        }
        self.note(("ends", place, is_down));
        self.kill(place, has_no_power);
        let (life, at) = (self.life(place), self.now + self.random.millis(50..4000));
        self.schedule(at, Happening::Restart(place, life));
        !is_down
    }

    /// The faults are over: everybody is there and hears everybody. Clients end what they have begun.
    fn calm(&mut self) {
        self.note("calm");
        self.has_faults = false;
        self.net.heal();
        self.nodes.iter_mut().for_each(Node::calm);
        self.start(Place::Master);
        (0..NODES).for_each(|number| self.start(Place::Node(number)));
        for client in self.clients.iter_mut().flatten() {
            client.is_stopping = true;
        }
        self.keeper.is_stopping = true;
        self.jobs.places().into_iter().for_each(|place| self.start(place));
        self.jobs.calm();
        self.readers.iter_mut().for_each(|reader| reader.calm_since = Some(self.now));
    }
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Call, Request, VERSION};
    use protocol::{CallId, ClientId, DfsPath};

    use super::*;

    /// How late a call arrives at most: long enough for a NameNode to start.
    const LATE: Duration = Duration::from_secs(60);

    /// Makes a directory by a call that arrives late; the NameNode may die before. True if the directory is there in the end.
    fn is_made(dies: bool) -> bool {
        let mut world = World::new(1);
        world.start(Place::Master);
        (0..NODES).for_each(|number| world.start(Place::Node(number)));
        world.pass(Duration::from_secs(5));
        let path = DfsPath::parse("/late").expect("a path");
        let call = Call::Mkdirs { path: path.clone(), mode: 0o755, unmasked: None, parents: false };
        let request = Request {
            version: VERSION,
            call: CallId { client: ClientId([9; 16]), number: 1 },
            user: "ann".to_owned(),
            host: String::new(),
            body: call.into(),
        };
        let mut out = Outbox::default();
        let (from, request) = (Place::Keeper, Box::new(request));
        out.send(Place::Master, Message::Client { from, number: 1, request });
        world.net.jitter = LATE;
        world.send(from, out);
        world.net.jitter = Duration::ZERO;
        if dies {
            world.kill(Place::Master, false);
            world.start(Place::Master);
        }
        world.pass(LATE + Duration::from_secs(1));
        world.ask(Call::Status(path)).is_ok()
    }

    #[test]
    fn a_call_reaches_no_later_start_than_it_was_signed_for() {
        assert!(is_made(false));
        assert!(!is_made(true));
    }
}
