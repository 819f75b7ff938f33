//! `yarn node`: the workers.

use anyhow::Result;
use client::job::JobClient;
use protocol::jobs::WorkerReport;

use super::words::{Asked, Takes, Wrong, options};
use crate::output::{EXIT_OK, EXIT_USAGE, local_zone, offset_date, say};

pub(super) const USAGE: &str = "\
Usage: yarn node COMMAND

  -list [-all | -states STATES]  workers; without an option those that take tasks. STATES are NEW, RUNNING, UNHEALTHY,
                                 DECOMMISSIONED, LOST, REBOOTED, DECOMMISSIONING, SHUTDOWN, with commas between them
  -status NODE                   one worker, as the list shows it: host:port
";

/// Hadoop's states of a node; a worker is in one of four of them.
const STATES: [&str; 8] = [
    "NEW",
    "RUNNING",
    "UNHEALTHY",
    "DECOMMISSIONED",
    "LOST",
    "REBOOTED",
    "DECOMMISSIONING",
    "SHUTDOWN",
];

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    List(Vec<&'static str>),
    Status(String),
}

pub(super) fn parse(words: &[String]) -> Result<Asked<Request>, Wrong> {
    let known = [
        ("-list", Takes::Nothing),
        ("-all", Takes::Nothing),
        ("-states", Takes::List),
        ("-status", Takes::One),
    ];
    let Asked::Do(given) = options("node", &known, words)? else { return Ok(Asked::Help) };
    let names: Vec<&str> = given.keys().copied().collect();
    Ok(Asked::Do(match names[..] {
        ["-list"] => Request::List(vec!["RUNNING"]),
        // As in Hadoop, `-all` wins.
        ["-all", "-list"] | ["-all", "-list", "-states"] => Request::List(STATES.to_vec()),
        ["-list", "-states"] => Request::List(states(&given["-states"])?),
        ["-status"] => Request::Status(given["-status"][0].to_owned()),
        _ => return Err(Wrong::new("")),
    }))
}

fn states(given: &[&str]) -> Result<Vec<&'static str>, Wrong> {
    let state = |text: &&str| {
        let known = STATES.into_iter().find(|state| state.eq_ignore_ascii_case(text));
        known.ok_or_else(|| {
            Wrong::new(format!(
                "The node state {text} is invalid.\nThe valid node state can be one of the following: {}.",
                STATES.join(",")
            ))
        })
    };
    given.iter().map(state).collect()
}

/// The state of a worker, and what Hadoop would call its health.
fn state(worker: &WorkerReport) -> (&'static str, String) {
    if worker.drained {
        return ("DECOMMISSIONED", String::new());
    }
    if worker.excluded {
        return ("DECOMMISSIONING", String::new());
    }
    if worker.blacklisted {
        return ("UNHEALTHY", format!("{} jobs failed there", worker.faults));
    }
    if worker.suspect {
        return ("UNHEALTHY", format!("silent for {} s", worker.silent_ms / 1000));
    }
    ("RUNNING", String::new())
}

pub(super) fn answer(client: &JobClient, request: Request) -> Result<u8> {
    let workers = client.workers()?;
    match request {
        Request::List(states) => {
            let shown: Vec<&WorkerReport> =
                workers.iter().filter(|worker| states.contains(&state(worker).0)).collect();
            say!("{}", list_text(&shown).trim_end());
            Ok(EXIT_OK)
        }
        Request::Status(node) => {
            match workers.iter().find(|worker| node_id(worker) == node) {
                Some(worker) => {
                    say!("{}", status_text(worker, transport::rpc::now_ms()).trim_end_matches('\n'))
                }
                None => {
                    say!("Could not find the node report for node id : {node}");
                    return Ok(EXIT_USAGE);
                }
            }
            Ok(EXIT_OK)
        }
    }
}

/// Host and port.
fn node_id(worker: &WorkerReport) -> String {
    match worker.http_address.rsplit_once(':') {
        Some((_, port)) => format!("{}:{port}", worker.host),
        None => worker.host.clone(),
    }
}

fn list_text(workers: &[&WorkerReport]) -> String {
    let line = |id: &str, state: &str, address: &str, count: &str| {
        format!("{id:>16}\t{state:>15}\t{address:>17}\t{count:>28}\n")
    };
    let mut text = format!("Total Nodes:{}\n", workers.len());
    let head = ("Node-Id", "Node-State", "Node-Http-Address", "Number-of-Running-Containers");
    text.push_str(&line(head.0, head.1, head.2, head.3));
    for worker in workers {
        let count = worker.running_count.to_string();
        text.push_str(&line(&node_id(worker), state(worker).0, &worker.http_address, &count));
    }
    text
}

fn status_text(worker: &WorkerReport, now_ms: u64) -> String {
    let (state, health) = state(worker);
    let mut text = "Node Report : \n".to_owned();
    let heard_ms = now_ms.saturating_sub(worker.silent_ms);
    for (label, value) in [
        ("Node-Id", node_id(worker)),
        ("Rack", worker.rack.clone()),
        ("Node-State", state.to_owned()),
        ("Node-Http-Address", worker.http_address.clone()),
        ("Last-Health-Update", offset_date(heard_ms, local_zone())),
        ("Health-Report", health),
        ("Containers", worker.running_count.to_string()),
        ("Memory-Used", "N/A".to_owned()),
        ("Memory-Capacity", "N/A".to_owned()),
        ("CPU-Used", format!("{} vcores", worker.running_count)),
        ("CPU-Capacity", format!("{} vcores", worker.slot_count)),
        ("Node-Labels", String::new()),
        ("Node Attributes", String::new()),
        ("Resource Utilization by Node", String::new()),
        ("Resource Utilization by Containers", String::new()),
    ] {
        text.push_str(&format!("\t{label} : {value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::words::asked;
    use super::*;

    #[test]
    fn what_is_asked() {
        let parse = |line: &str| asked(parse, line);
        assert_eq!(parse("-list"), Ok(Request::List(vec!["RUNNING"])));
        assert_eq!(parse("-list -all"), Ok(Request::List(STATES.to_vec())));
        assert_eq!(parse("-list -states lost,Running"), Ok(Request::List(vec!["LOST", "RUNNING"])));
        assert_eq!(parse("-status h:1"), Ok(Request::Status("h:1".to_owned())));
        assert_eq!(parse("-help"), Err("help".to_owned()));
        assert_eq!(parse(""), Err(String::new()));
        assert!(parse("-list -states gone").unwrap_err().contains("state gone is invalid"));
        assert!(parse("-list -showDetails").unwrap_err().contains("-showDetails is not supported"));
    }

    #[test]
    fn states_and_columns() {
        let good = WorkerReport {
            host: "h".to_owned(),
            http_address: "10.0.0.1:8042".to_owned(),
            slot_count: 4,
            running_count: 3,
            ..WorkerReport::default()
        };
        let suspect = WorkerReport { suspect: true, silent_ms: 61_000, ..good.clone() };
        let bad = WorkerReport { blacklisted: true, faults: 3, ..good.clone() };
        let leaving = WorkerReport { excluded: true, ..bad.clone() };
        let left = WorkerReport { drained: true, ..leaving.clone() };
        for (worker, expected, health) in [
            (&good, "RUNNING", ""),
            (&suspect, "UNHEALTHY", "silent for 61 s"),
            (&bad, "UNHEALTHY", "3 jobs failed there"),
            (&leaving, "DECOMMISSIONING", ""),
            (&left, "DECOMMISSIONED", ""),
        ] {
            assert_eq!(state(worker), (expected, health.to_owned()));
        }
        let line = list_text(&[&good]).lines().last().map(str::to_owned).unwrap();
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        assert_eq!(fields, ["h:8042", "RUNNING", "10.0.0.1:8042", "3"]);
        assert!(status_text(&good, 0).contains("\tCPU-Capacity : 4 vcores\n"));
    }
}
