//! `hanno queue`: the queues of the JobTracker, as `mapred queue` prints them.

use std::ffi::OsString;

use anyhow::Result;
use protocol::jobs::{JobReport, QueueReport};
use serde::Serialize;

use super::wrong::{Wrong, too_many};
use crate::connect::{Overrides, describe, job_client};
use crate::generic::generic;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_json, report, report_text, say};
use crate::reference::Outline;

const USAGE: &str = "\
Usage: hanno queue COMMAND

  -list [--json]                      all queues with their share and load
  -info QUEUE [-showJobs] [--json]    one queue, and the jobs in it
  -showacls                           what you may do in each queue
";

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_commands(USAGE)
}

/// Runs the command line after `queue` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (mut words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => {
            report!("queue: {text}");
            return EXIT_USAGE;
        }
    };
    let count = words.len();
    words.retain(|word| word != "--json" && word != "-json");
    let json = words.len() < count;
    if json {
        crate::output::only_json();
    }
    let words: Vec<&str> = words.iter().map(|word| word.trim_start_matches('-')).collect();
    let outcome = match words[..] {
        ["list"] => show(None, false, json, &overrides),
        ["info", queue] => show(Some(queue), false, json, &overrides),
        ["info", queue, "showJobs"] => show(Some(queue), true, json, &overrides),
        ["showacls"] if json => {
            report!("queue: -showacls has no --json");
            return EXIT_USAGE;
        }
        ["showacls"] => show_rights(&overrides),
        ["help"] => {
            say!("{}", USAGE.trim_end());
            return EXIT_OK;
        }
        ref rest => {
            if !rest.is_empty() {
                report!("queue: {}", wrong(rest));
            }
            report_text!("{USAGE}");
            return EXIT_USAGE;
        }
    };
    outcome.unwrap_or_else(|error| {
        report!("queue: {}", describe(error.as_ref()));
        EXIT_FAILED
    })
}

/// What is wrong with words that are no command line.
fn wrong(words: &[&str]) -> Wrong {
    let option = |word: &&str| format!("-{word}");
    match words {
        [] => Wrong::Nothing,
        ["info"] => Wrong::Missing { option: option(&"info"), what: "QUEUE" },
        [command @ ("list" | "showacls"), word, ..]
        | [command @ "info", _, "showJobs", word, ..] => too_many(&option(command), word),
        ["info", _, word, ..] => {
            Wrong::Word { option: option(&"info"), word: (*word).to_owned(), expected: "-showJobs" }
        }
        [command, ..] => Wrong::Command(option(command)),
    }
}

/// `-info QUEUE -showJobs --json`.
#[derive(Serialize)]
struct QueueAndJobs<'a> {
    queue: Option<&'a QueueReport>,
    jobs: &'a [JobReport],
}

fn show(wanted: Option<&str>, jobs: bool, json: bool, overrides: &Overrides) -> Result<u8> {
    let client = job_client(&overrides.config()?)?;
    let mut queues = client.queues()?;
    if let Some(name) = wanted {
        queues.retain(|queue| queue.name == name);
        if queues.is_empty() {
            report!("Queue \"{name}\" does not exist.");
            return Ok(EXIT_USAGE);
        }
    }
    let jobs = match jobs {
        true => {
            let mut list = client.list()?;
            list.retain(|job| Some(job.queue.as_str()) == wanted && !job.state.is_final());
            Some(list)
        }
        false => None,
    };
    match jobs {
        Some(jobs) if json => print_json(&QueueAndJobs { queue: queues.first(), jobs: &jobs })?,
        None if json => print_json(&queues)?,
        jobs => {
            queues.iter().for_each(|queue| say!("{}", text(queue).trim_end_matches('\n')));
            jobs.iter().for_each(|jobs| say!("{}", super::list_text(jobs).trim_end()));
        }
    }
    Ok(EXIT_OK)
}

/// Prints rights: everybody may submit; some may change the jobs of others.
fn show_rights(overrides: &Overrides) -> Result<u8> {
    let config = overrides.config()?;
    let client = job_client(&config)?;
    let administered = client.administered_queues()?;
    say!("Queue acls for user :  {}\n\nQueue  Operations\n=====================", config.user());
    for queue in client.queues()? {
        let rights = match administered.contains(&queue.name) {
            true => "ADMINISTER_QUEUE,SUBMIT_APPLICATIONS",
            false => "SUBMIT_APPLICATIONS",
        };
        say!("{}  {rights}", queue.name);
    }
    Ok(EXIT_OK)
}

fn text(queue: &QueueReport) -> String {
    let state = if queue.running { "running" } else { "stopped" };
    let mut info = vec![
        format!("{}, weight {}", queue.policy, queue.weight),
        format!("share {:.1} slots", queue.share_permille as f64 / 1000.0),
        format!("{} in use, {} wanted", queue.slot_count, queue.demand),
        format!("{} jobs, {} started", queue.job_count, queue.started_job_count),
    ];
    for (what, limit) in [
        ("at least", queue.slots_min),
        ("at most", queue.slots_max),
        ("per user at most", queue.user_slots_max),
    ] {
        if limit > 0 {
            info.push(format!("{what} {limit} slots"));
        }
    }
    if queue.running_jobs_max > 0 {
        info.push(format!("at most {} jobs at once", queue.running_jobs_max));
    }
    format!(
        "======================\nQueue Name : {} \nQueue State : {state} \nScheduling Info : {} \n",
        queue.name,
        info.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_word_is_named() {
        for (words, text) in [
            (&["list", "x"][..], "-list: `x' is one word too many"),
            (&["info"], "-info: QUEUE is missing"),
            (&["info", "q", "x"], "-info: `x' is not -showJobs"),
            (&["info", "q", "showJobs", "x"], "-info: `x' is one word too many"),
            (&["foo"], "-foo: Unknown command"),
        ] {
            assert_eq!(wrong(words).to_string(), text, "{words:?}");
        }
        assert_eq!(wrong(&[]), Wrong::Nothing);
    }

    #[test]
    fn a_queue_reads_as_hadoops() {
        let queue = QueueReport {
            name: "etl".to_owned(),
            running: true,
            policy: "fair".to_owned(),
            weight: 2,
            slots_min: 1,
            slots_max: 0,
            user_slots_max: 0,
            running_jobs_max: 3,
            share_permille: 2_667,
            slot_count: 2,
            demand: 9,
            job_count: 4,
            started_job_count: 3,
        };
        assert_eq!(
            text(&queue),
            "======================\nQueue Name : etl \nQueue State : running \nScheduling Info : fair, \
             weight 2, share 2.7 slots, 2 in use, 9 wanted, 4 jobs, 3 started, at least 1 slots, \
             at most 3 jobs at once \n"
        );
    }
}
