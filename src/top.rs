//! `hanno job top` and `hanno admin top`: the pages' overviews for people on a terminal, drawn again until Ctrl-C. Where standard output is
//! no terminal, or one that cannot be cleared, or with `--once`, they are printed once.
//!
//! Names come from other people: characters that could steer a terminal are replaced.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use client::dfs::DfsClient;
use client::job::JobClient;
use console::{Term, measure_text_width, truncate_str};
use protocol::jobs::{JobReport, JobState, QueueReport, TrackerStatus, WorkerReport};
use protocol::namenode::{AdminState, ClusterStatus, DatanodeReport, DatanodeState, Room};
use protocol::printable::printable;

use crate::connect::{Overrides, file_system, job_client};
use crate::output::{EXIT_OK, report_size, say};

/// Width if the terminal reports none.
const WIDTH_DEFAULT: usize = 120;
/// Cells of a bar.
const BAR_CELLS: usize = 16;
/// Finished jobs displayed beside the running ones.
const FINISHED_SHOWN: usize = 5;

/// Options of both.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// Print once and return
    #[arg(long)]
    pub(crate) once: bool,
    /// Seconds between two looks
    #[arg(long, default_value_t = 2, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) interval: u64,
}

/// `hanno job top`.
pub(crate) fn jobs(args: &TopArgs, overrides: &Overrides) -> Result<u8> {
    let client = job_client(&overrides.config()?)?;
    watch(args, || Ok(job_lines(&Tracker::of(&client)?, transport::rpc::now_ms())))
}

/// `hanno admin top`.
pub(crate) fn cluster(args: &TopArgs, overrides: &Overrides) -> Result<u8> {
    let config = overrides.config()?;
    let files: DfsClient = file_system(&config)?;
    let jobs = config.jobtracker.is_some().then(|| job_client(&config)).transpose()?;
    watch(args, || {
        let mut lines =
            cluster_lines(&files.cluster_status()?, &files.room()?, &files.datanodes()?);
        if let Some(jobs) = &jobs {
            lines.push(String::new());
            lines.extend(job_lines(&Tracker::of(jobs)?, transport::rpc::now_ms()));
        }
        Ok(lines)
    })
}

/// The state of a JobTracker.
struct Tracker {
    status: TrackerStatus,
    jobs: Vec<JobReport>,
    queues: Vec<QueueReport>,
    workers: Vec<WorkerReport>,
}

impl Tracker {
    fn of(client: &JobClient) -> Result<Self> {
        let (status, jobs) = (client.tracker()?, client.list()?);
        Ok(Tracker { status, jobs, queues: client.queues()?, workers: client.workers()? })
    }
}

fn watch(args: &TopArgs, mut refresh: impl FnMut() -> Result<Vec<String>>) -> Result<u8> {
    let term = Term::stdout();
    if args.once || !term.is_term() || !can_be_cleared(std::env::var_os("TERM").as_deref()) {
        refresh()?.iter().for_each(|line| say!("{line}"));
        return Ok(EXIT_OK);
    }
    loop {
        // The screen reports an unreachable daemon: it may return.
        let lines =
            refresh().unwrap_or_else(|error| vec![crate::connect::describe(error.as_ref())]);
        let (height, width) = term.size();
        let (height, width) = (usize::from(height), usize::from(width));
        let hidden = lines.len().saturating_sub(height.saturating_sub(1));
        let mut screen = String::new();
        for line in lines.iter().take(lines.len() - hidden) {
            let line = printable(line);
            let line = truncate_str(&line, if width == 0 { WIDTH_DEFAULT } else { width }, "…");
            let _ = writeln!(screen, "{line}");
        }
        term.clear_screen()?;
        term.write_str(&screen)?;
        term.flush()?;
        std::thread::sleep(Duration::from_secs(args.interval));
    }
}

/// False for a terminal that shows codes as text, as editors and logs of builds do, and for one that nothing is known of.
fn can_be_cleared(kind: Option<&OsStr>) -> bool {
    kind.is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

/// A name in a form that is safe for a terminal.
fn safe(name: &str) -> String {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    name.chars().map(|c| if steers(c) { '\u{fffd}' } else { c }).collect()
}

/// Pads or cuts to `cells`.
fn cell(text: &str, cells: usize) -> String {
    let text = truncate_str(text, cells, "…").into_owned();
    let missing = cells.saturating_sub(measure_text_width(&text));
    text + &" ".repeat(missing)
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
    format!("[{}{}] {:>3.0}%", "#".repeat(full), "·".repeat(BAR_CELLS - full), share * 100.0)
}

fn duration(ms: u64) -> String {
    match ms / 1000 {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

fn job_lines(tracker: &Tracker, now_ms: u64) -> Vec<String> {
    let status = &tracker.status;
    let running: Vec<&JobReport> =
        tracker.jobs.iter().filter(|job| !job.state.is_final()).collect();
    let waiting: u64 = running
        .iter()
        .map(|job| u64::from(job.maps.pending) + u64::from(job.reduces.pending))
        .sum();
    let busy = f64::from(status.busy_slot_count) / f64::from(status.slot_count.max(1));
    let mut lines = vec![format!(
        "jobs {} running, {waiting} tasks waiting   slots {} {}/{}   workers {}",
        running.len(),
        bar(busy),
        status.busy_slot_count,
        status.slot_count,
        status.worker_count
    )];
    for worker in tracker.workers.iter().filter(|worker| worker.suspect || worker.blacklisted) {
        let reason = if worker.blacklisted { "avoided by all jobs" } else { "late" };
        lines.push(format!("! worker {} is {reason}", safe(&worker.http_address)));
    }
    let busy_queues = tracker.queues.iter().filter(|queue| queue.job_count > 0);
    for queue in busy_queues {
        lines.push(format!(
            "queue {} {:>4} slots of {:.1}, {} wanted, {} jobs",
            cell(&safe(&queue.name), 20),
            queue.slot_count,
            queue.share_permille as f64 / 1000.0,
            queue.demand,
            queue.job_count
        ));
    }
    let finished = tracker.jobs.iter().filter(|job| job.state.is_final()).take(FINISHED_SHOWN);
    lines.push(String::new());
    lines.push(format!(
        "{} {} {} {} {} {:>13}",
        cell("JOB", 24),
        cell("NAME", 22),
        cell("STATE", 10),
        cell("MAPS", 24),
        cell("REDUCES", 24),
        "TIME"
    ));
    lines.extend(running.into_iter().chain(finished).map(|job| job_line(job, now_ms)));
    lines
}

fn job_line(job: &JobReport, now_ms: u64) -> String {
    let state = match job.state {
        JobState::Running => "running",
        JobState::Committing => "committing",
        JobState::Succeeded => "succeeded",
        JobState::Failed => "FAILED",
        JobState::Killed => "killed",
    };
    let end = if job.finished_ms == 0 { now_ms } else { job.finished_ms };
    format!(
        "{} {} {} {} {} {:>13}",
        cell(&safe(&job.id), 24),
        cell(&safe(&job.name), 22),
        cell(state, 10),
        cell(&bar(f64::from(job.map_progress)), 24),
        cell(&bar(f64::from(job.reduce_progress)), 24),
        duration(end.saturating_sub(job.submitted_ms))
    )
}

fn cluster_lines(status: &ClusterStatus, room: &Room, nodes: &[DatanodeReport]) -> Vec<String> {
    let full = room.capacity.saturating_sub(room.remaining) as f64 / room.capacity.max(1) as f64;
    let mut lines = vec![format!(
        "files {}   blocks {}   disks {} {} free   DataNodes {} live, {} dead",
        status.inode_count,
        status.block_count,
        bar(full),
        report_size(room.remaining),
        status.live_count,
        status.dead_count
    )];
    for out in &status.log_dirs_left_out {
        lines.push(format!("! directory of log_dirs left out: {}", safe(out)));
    }
    if let Some(reason) = &status.safe_mode {
        lines.push(format!("! safe mode: {}", safe(reason.lines().next().unwrap_or_default())));
    }
    for (what, count) in [
        ("blocks without a good replica", status.missing_count),
        ("blocks with too few replicas", status.low_redundancy_count),
        ("blocks with a corrupt replica", status.corrupt_count),
    ] {
        if count > 0 {
            lines.push(format!("! {count} {what}"));
        }
    }
    lines.push(String::new());
    lines.push(format!(
        "{} {} {} {:>10} {:>9} {:>9}",
        cell("DATANODE", 26),
        cell("STATE", 12),
        cell("DISKS", 24),
        "FREE",
        "BLOCKS",
        "TRANSFERS"
    ));
    lines.extend(nodes.iter().map(node_line));
    lines
}

fn node_line(node: &DatanodeReport) -> String {
    let state = match (node.state, node.admin) {
        (DatanodeState::Dead, _) => "DEAD",
        (DatanodeState::Stale, _) => "stale",
        (_, AdminState::Normal) => "live",
        (_, admin) => admin.text(),
    };
    let full = node.capacity.saturating_sub(node.remaining) as f64 / node.capacity.max(1) as f64;
    format!(
        "{} {} {} {:>10} {:>9} {:>9}",
        cell(&safe(&node.info.transfer_address), 26),
        cell(state, 12),
        cell(&bar(full), 24),
        report_size(node.remaining),
        node.block_count,
        node.transfer_count
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::DfsPath;
    use protocol::jobs::{Counters, Priority, TaskCounts};

    #[test]
    fn only_a_terminal_that_is_known_is_cleared() {
        for (kind, expected) in [
            (Some("xterm-256color"), true),
            (Some("linux"), true),
            (Some("dumb"), false),
            (Some(""), false),
            (None, false),
        ] {
            assert_eq!(can_be_cleared(kind.map(OsStr::new)), expected, "{kind:?}");
        }
    }

    fn job(name: &str, state: JobState) -> JobReport {
        JobReport {
            id: "job_202611201830_0001".to_owned(),
            name: name.to_owned(),
            user: "alice".to_owned(),
            state,
            maps: TaskCounts { total: 4, pending: 3, ..TaskCounts::default() },
            reduces: TaskCounts::default(),
            map_progress: 0.25,
            reduce_progress: 0.0,
            submitted_ms: 1_000,
            finished_ms: if state.is_final() { 91_000 } else { 0 },
            counters: Counters::default(),
            read_records_per_s: 0,
            read_bytes_per_s: 0,
            diagnostics: String::new(),
            output: DfsPath::root(),
            queue: "default".to_owned(),
            priority: Priority::Normal,
            slot_count: 1,
            is_outline: false,
            rounds: None,
        }
    }

    #[test]
    fn jobs_read_in_columns_and_names_cannot_steer_the_terminal() {
        let status = TrackerStatus {
            worker_count: 1,
            slot_count: 4,
            busy_slot_count: 1,
            running_job_count: 1,
            host_count: 1,
        };
        let jobs = vec![
            job("\u{1b}[2Jevil\u{202e}", JobState::Running),
            job("much longer than its column is", JobState::Failed),
        ];
        let tracker = Tracker { status, jobs, queues: Vec::new(), workers: Vec::new() };
        let lines = job_lines(&tracker, 6_000);
        assert!(lines[0].starts_with("jobs 1 running, 3 tasks waiting"), "{lines:#?}");
        assert!(lines[0].contains("[####············]  25% 1/4"), "{lines:#?}");
        assert!(!lines.concat().contains(['\u{1b}', '\u{202e}']), "{lines:#?}");
        assert!(lines[3].ends_with("5 s") && lines[4].ends_with("1 min 30 s"), "{lines:#?}");
        let widths: Vec<usize> = lines[2..].iter().map(|line| measure_text_width(line)).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{lines:#?}");
    }

    #[test]
    fn what_is_wrong_with_the_cluster_stands_first() {
        let status = ClusterStatus {
            missing_count: 2,
            safe_mode: Some("on\nmore".to_owned()),
            ..ClusterStatus::default()
        };
        let node = DatanodeReport { state: DatanodeState::Dead, ..DatanodeReport::default() };
        let lines = cluster_lines(&status, &Room::default(), &[node]);
        assert_eq!(lines[1], "! safe mode: on");
        assert_eq!(lines[2], "! 2 blocks without a good replica");
        assert!(lines.last().unwrap().contains("DEAD"), "{lines:#?}");
    }
}
