//! `hanno balancer` and Hadoop's `hdfs balancer`: moves replicas until every DataNode is about as full as the average.
//!
//! One iteration: ask how full every DataNode is, plan ([`plan`]), start moves and wait for them. The NameNode refuses moves that would break the rules of
//! racks, and deletes the old replica only once the new one exists. Only one balancer runs at a time: it holds the lease of [`ID_PATH`]. After Ctrl-C it starts
//! no more moves and waits for those in progress.

mod options;
mod plan;

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use client::dfs::{CreateOptions, DfsClient, DfsError, DfsWriter};
use protocol::namenode::{
    AdminState, BlockOn, DatanodeState, LIST_ENTRIES_MAX, MoveState, ReplicaMove, calls,
};
use protocol::{BlockId, DatanodeId, DfsPath, ErrorKind};
use transport::rpc::{now_ms, runtime};

use self::options::Options;
use self::plan::{Node, Plan};
use crate::connect::{Overrides, describe, file_system};
use crate::output::{EXIT_OK, java_date, local_zone, report, report_size, say};
use crate::reference::Outline;

/// Whoever holds the lease of this file is the balancer.
const ID_PATH: &str = "/system/balancer.id";
/// Block size of that file: the smallest that a NameNode accepts by default.
const ID_BLOCK_BYTES: u64 = 1 << 20;
/// Pause between checks of moves in progress.
const CHECK_PAUSE: Duration = Duration::from_millis(100);
/// Time for DataNodes to report how full they are after an iteration.
const SETTLE_MAX: Duration = Duration::from_secs(15);
/// Time to take over the lease of a balancer that died: HDFS's soft limit and a recovery.
const TAKE_OVER_MAX: Duration = Duration::from_secs(10);

/// HDFS's exit codes, as the shell sees them.
const EXIT_ALREADY_RUNNING: u8 = 255;
const EXIT_NO_MOVE: u8 = 253;
const EXIT_IO: u8 = 252;
const EXIT_ILLEGAL: u8 = 251;
const EXIT_INTERRUPTED: u8 = 250;

const USAGE: &str = "Usage: hanno balancer
	[-policy <policy>]	datanode or blockpool; the same here
	[-threshold <threshold>]	percentage of disk capacity, 10 by default
	[-exclude [-f <hosts-file> | <comma-separated list of hosts>]]	DataNodes that take no part
	[-include [-f <hosts-file> | <comma-separated list of hosts>]]	DataNodes that alone take part
	[-source [-f <hosts-file> | <comma-separated list of hosts>]]	DataNodes that alone give
	[-idleiterations <idleiterations>]	iterations without a move before it ends, 5 by default; -1 for ever
	[-runDuringUpgrade]	is accepted: there is no upgrade to wait for
	[-sortTopNodes]	is accepted: the fullest DataNodes always begin

Moves replicas until the use of every DataNode is within the threshold of the cluster's. Ends by itself; Ctrl-C waits for the moves
under way. `hanno dfsadmin -setBalancerBandwidth` limits it, and so do the properties dfs.balancer.max-size-to-move and
dfs.datanode.balance.max.concurrent.moves.

Examples:
  hanno balancer
  hanno balancer -threshold 5";

/// The options for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_options(USAGE)
}

/// Runs the balancer and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    if arguments.iter().any(|word| word == "-help" || word == "--help" || word == "-h") {
        say!("{USAGE}");
        return EXIT_OK;
    }
    let parsed = crate::generic::generic_with(arguments, overrides, &options::KEYS)
        .map_err(anyhow::Error::msg)
        .and_then(|given| Ok((Options::parse(&given.words, &given.properties)?, given.overrides)));
    let (options, overrides) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            report!("{error:#}\n{USAGE}");
            return EXIT_ILLEGAL;
        }
    };
    let begin = Instant::now();
    let code = balance(&options, &overrides).unwrap_or_else(|error| {
        say!("{}.  Exiting ...", describe(error.as_ref()));
        EXIT_IO
    });
    say!(
        "{:<24} Balancing took {:.1} seconds",
        java_date(now_ms(), local_zone()),
        begin.elapsed().as_secs_f64()
    );
    code
}

fn balance(options: &Options, overrides: &Overrides) -> Result<u8> {
    let client = file_system(&overrides.config()?)?;
    let datanodes = client.datanodes()?;
    options.check_names(&datanodes.iter().map(|node| &node.info).collect::<Vec<_>>())?;
    let Some(held) = hold(&client)? else {
        say!("Another Balancer is running..  Exiting ...");
        return Ok(EXIT_ALREADY_RUNNING);
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    runtime().spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            report!("interrupted: waiting for the moves under way");
            flag.store(true, Ordering::Relaxed);
        }
    });
    let mut balancer = Balancer { client, interrupted, moved_bytes: 0, seen: BTreeSet::new() };
    let code = balancer.iterate(options);
    // Deletes the file.
    drop(held);
    code
}

/// Takes the lease; `None` if another balancer has it.
fn hold(client: &DfsClient) -> Result<Option<DfsWriter>> {
    let path = DfsPath::parse(ID_PATH)?;
    let deadline = Instant::now() + TAKE_OVER_MAX;
    loop {
        // Nothing is written to it: full disks must not keep the balancer from helping.
        let block_size = Some(ID_BLOCK_BYTES);
        let options = CreateOptions { block_size, ..CreateOptions::default() };
        match client.create(&path, options) {
            Ok(writer) => return Ok(Some(writer)),
            Err(error) => match error.kind() {
                // A balancer that died left it; its lease is over.
                Some(ErrorKind::AlreadyExists) => drop(client.delete(&path, false)?),
                Some(ErrorKind::RecoveryInProgress) if Instant::now() < deadline => {}
                Some(ErrorKind::AlreadyBeingCreated | ErrorKind::RecoveryInProgress) => {
                    return Ok(None);
                }
                _ => return Err(error.into()),
            },
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(CHECK_PAUSE);
    }
}

struct Balancer {
    client: DfsClient,
    interrupted: Arc<AtomicBool>,
    moved_bytes: u64,
    /// Blocks that were moved or refused in this run; they are not tried again.
    seen: BTreeSet<BlockId>,
}

/// A pair of the plan in progress.
struct Work {
    from: DatanodeId,
    to: DatanodeId,
    bytes: u64,
    after: Option<BlockId>,
    candidates: VecDeque<BlockOn>,
    under_way: Vec<(ReplicaMove, u64)>,
    exhausted: bool,
}

impl Balancer {
    fn iterate(&mut self, options: &Options) -> Result<u8> {
        say!(
            "{:<28} {:>10} {:>20} {:>18} {:>18}  NameNode",
            "Time Stamp",
            "Iteration#",
            "Bytes Already Moved",
            "Bytes Left To Move",
            "Bytes Being Moved"
        );
        let mut idle = 0;
        for iteration in 0.. {
            let nodes = self.nodes(options)?;
            let plan = plan::plan(&nodes, options.threshold, options.bytes_per_node_max);
            if plan.left_bytes == 0 {
                say!("The cluster is balanced. Exiting...");
                self.line(iteration, &plan)?;
                return Ok(EXIT_OK);
            }
            if plan.pairs.is_empty() {
                say!("No block can be moved. Exiting...");
                self.line(iteration, &plan)?;
                return Ok(EXIT_NO_MOVE);
            }
            self.line(iteration, &plan)?;
            let moved = self.carry_out(&nodes, &plan, options.moves_per_source)?;
            if self.interrupted.load(Ordering::Relaxed) {
                say!("Interrupted. Exiting...");
                return Ok(EXIT_INTERRUPTED);
            }
            idle = if moved == 0 { idle + 1 } else { 0 };
            if options.idle_iterations_max.is_some_and(|most| idle >= most.max(1)) {
                say!("No block has been moved for {idle} iterations. Exiting...");
                return Ok(EXIT_NO_MOVE);
            }
            self.settle()?;
        }
        Ok(EXIT_OK)
    }

    fn line(&self, iteration: u32, plan: &Plan) -> io::Result<()> {
        let mut out = crate::output::out();
        writeln!(
            out,
            "{:<28} {:>10} {:>20} {:>18} {:>18}  {}",
            java_date(now_ms(), local_zone()),
            iteration,
            report_size(self.moved_bytes),
            report_size(plan.left_bytes),
            report_size(plan.bytes()),
            self.client.namenode()
        )?;
        out.flush()
    }

    /// DataNodes that take part: alive, in service and not excluded; the fullest first.
    fn nodes(&self, options: &Options) -> Result<Vec<Node>, DfsError> {
        let reports = self.client.datanodes()?.into_iter();
        let takes_part = reports.filter(|report| {
            report.state == DatanodeState::Live
                && report.admin == AdminState::Normal
                && options.takes_part(&report.info)
        });
        let node = |report: protocol::namenode::DatanodeReport| Node {
            id: report.info.id,
            capacity: report.capacity,
            used: report.used,
            remaining: report.remaining,
            may_give: options.may_give(&report.info),
        };
        let mut nodes: Vec<Node> = takes_part.map(node).collect();
        let share = |node: &Node| node.used as f64 / node.capacity.max(1) as f64;
        nodes.sort_by(|a, b| share(b).total_cmp(&share(a)));
        Ok(nodes)
    }

    /// Moves what the plan says, as far as there are suitable blocks; returns the bytes moved.
    fn carry_out(
        &mut self,
        nodes: &[Node],
        plan: &Plan,
        moves_max: usize,
    ) -> Result<u64, DfsError> {
        let mut works: Vec<Work> = plan
            .pairs
            .iter()
            .map(|pair| Work {
                from: nodes[pair.from].id,
                to: nodes[pair.to].id,
                bytes: pair.bytes,
                after: None,
                candidates: VecDeque::new(),
                under_way: Vec::new(),
                exhausted: false,
            })
            .collect();
        let mut moved = 0;
        loop {
            let stop = self.interrupted.load(Ordering::Relaxed);
            for work in &mut works {
                moved += self.finish_moves(work)?;
                if !stop {
                    self.begin(work, moves_max)?;
                }
            }
            let done = |work: &Work| work.under_way.is_empty() && (stop || work.exhausted);
            if works.iter().all(done) {
                self.moved_bytes += moved;
                return Ok(moved);
            }
            sleep(CHECK_PAUSE);
        }
    }

    /// Takes off the moves that are over; returns the bytes moved.
    fn finish_moves(&mut self, work: &mut Work) -> Result<u64, DfsError> {
        if work.under_way.is_empty() {
            return Ok(0);
        }
        let asked = work.under_way.iter().map(|(wanted, _)| *wanted).collect();
        let states = self.client.ask(calls::MoveStates { moves: asked })?;
        let (mut moved, mut states) = (0, states.into_iter());
        work.under_way.retain(|(_, bytes)| match states.next() {
            Some(MoveState::Moved) => {
                moved += bytes;
                false
            }
            Some(MoveState::Refused) => {
                work.bytes += bytes;
                false
            }
            Some(MoveState::Moving) | None => true,
        });
        Ok(moved)
    }

    /// Starts as many moves as may run at once.
    fn begin(&mut self, work: &mut Work, moves_max: usize) -> Result<(), DfsError> {
        let mut wanted: Vec<(ReplicaMove, u64)> = Vec::new();
        while work.under_way.len() + wanted.len() < moves_max && !work.exhausted {
            let Some(BlockOn { block, length }) = work.candidates.pop_front() else {
                self.fetch(work)?;
                continue;
            };
            if length == 0 || length > work.bytes || !self.seen.insert(block) {
                continue;
            }
            work.bytes -= length;
            wanted.push((ReplicaMove { block, from: work.from, to: work.to }, length));
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let asked = wanted.iter().map(|(wanted, _)| *wanted).collect();
        let states = self.client.ask(calls::MoveReplicas { moves: asked })?;
        for (begun, state) in wanted.into_iter().zip(states) {
            match state {
                MoveState::Refused => work.bytes += begun.1,
                MoveState::Moving | MoveState::Moved => work.under_way.push(begun),
            }
        }
        Ok(())
    }

    fn fetch(&self, work: &mut Work) -> Result<(), DfsError> {
        let call =
            calls::BlocksOn { datanode: work.from, after: work.after, limit: LIST_ENTRIES_MAX };
        let blocks = self.client.ask(call)?;
        match blocks.last() {
            Some(last) => work.after = Some(last.block),
            None => work.exhausted = true,
        }
        work.candidates.extend(blocks);
        Ok(())
    }

    /// Waits until every DataNode has reported how full it is after the moves.
    fn settle(&self) -> Result<(), DfsError> {
        let begin = Instant::now();
        let mut beaten: BTreeSet<DatanodeId> = BTreeSet::new();
        loop {
            let since = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
            let reports = self.client.datanodes()?;
            let live = reports.iter().filter(|report| report.state == DatanodeState::Live);
            let fresh = live.clone().filter(|report| report.last_contact_ms < since);
            beaten.extend(fresh.map(|report| report.info.id));
            let all = live.clone().all(|report| beaten.contains(&report.info.id));
            if all || begin.elapsed() >= SETTLE_MAX {
                return Ok(());
            }
            sleep(CHECK_PAUSE);
        }
    }
}
