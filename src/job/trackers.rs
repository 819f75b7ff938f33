//! Workers: `hanno job -list-active-trackers`, `-list-blacklisted-trackers`, and `hanno mradmin`.

use std::ffi::OsString;

use anyhow::Result;
use client::job::JobClient;
use protocol::jobs::WorkerReport;

use crate::connect::{Overrides, describe, job_client};
use crate::generic::generic;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_json, report, report_text, say};
use crate::reference::Outline;

const USAGE: &str = "\
Usage: hanno mradmin COMMAND

  -refreshNodes   read the list of workers to be emptied (`workers_exclude_file` of the JobTracker) again
  -refreshQueues  read the rules of the queues (`queues` in the JobTracker's configuration) again; if they are wrong, the old ones stay
  -refreshUserToGroupsMappings
                  ask again which groups users belong to
";

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_commands(USAGE)
}

/// Prints workers that get tasks, or those that get none.
pub(super) fn list(client: &JobClient, blacklisted: bool, json: bool) -> Result<u8> {
    let mut workers = client.workers()?;
    workers.retain(|worker| reason(worker).is_some() == blacklisted);
    if json {
        print_json(&workers)?;
    } else {
        workers.iter().for_each(|worker| say!("{}", text(worker)));
    }
    Ok(EXIT_OK)
}

fn text(worker: &WorkerReport) -> String {
    let name = format!("tracker_{}:{}", worker.host, worker.http_address);
    match reason(worker) {
        Some(reason) => format!("{name}\t{reason}"),
        None => name,
    }
}

/// Why a worker gets no tasks.
fn reason(worker: &WorkerReport) -> Option<String> {
    if worker.drained {
        return Some("excluded, empty".to_owned());
    }
    if worker.excluded {
        return Some(format!("excluded, {} attempts run", worker.running_count));
    }
    worker.blacklisted.then(|| format!("{} jobs failed there", worker.faults))
}

/// `hanno mradmin`.
pub(crate) fn mradmin(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => {
            report!("mradmin: {text}");
            return EXIT_USAGE;
        }
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let refresh = match words[..] {
        ["-refreshNodes" | "refreshNodes"] => JobClient::refresh_nodes,
        ["-refreshQueues" | "refreshQueues"] => JobClient::refresh_queues,
        ["-refreshUserToGroupsMappings" | "refreshUserToGroupsMappings"] => {
            JobClient::refresh_groups
        }
        _ => {
            report_text!("{USAGE}");
            return EXIT_USAGE;
        }
    };
    let refreshed = overrides.config().and_then(|config| Ok(refresh(&job_client(&config)?)?));
    match refreshed {
        Ok(()) => EXIT_OK,
        Err(error) => {
            report!("mradmin: {}", describe(error.as_ref()));
            EXIT_FAILED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let good = WorkerReport {
            host: "h".to_owned(),
            http_address: "h:1".to_owned(),
            rack: "/r".to_owned(),
            slot_count: 2,
            running_count: 1,
            ..WorkerReport::default()
        };
        let excluded = WorkerReport { excluded: true, ..good.clone() };
        let drained = WorkerReport { drained: true, ..excluded.clone() };
        let bad = WorkerReport { blacklisted: true, faults: 4, ..good.clone() };
        for (worker, expected) in [
            (good, "tracker_h:h:1"),
            (excluded, "tracker_h:h:1\texcluded, 1 attempts run"),
            (drained, "tracker_h:h:1\texcluded, empty"),
            (bad, "tracker_h:h:1\t4 jobs failed there"),
        ] {
            assert_eq!(text(&worker), expected);
        }
    }
}
