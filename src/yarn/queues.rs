//! `yarn queue`: the queues of the JobTracker.

use anyhow::Result;
use client::job::JobClient;
use protocol::jobs::QueueReport;

use super::words::{Asked, Takes, Wrong, options};
use crate::output::{EXIT_OK, EXIT_USAGE, report, say};

pub(super) const USAGE: &str = "\
Usage: yarn queue COMMAND

  -list          all queues
  -status QUEUE  one queue
";

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    List,
    Status(String),
}

pub(super) fn parse(words: &[String]) -> Result<Asked<Request>, Wrong> {
    let known = [("-list", Takes::Nothing), ("-status", Takes::One)];
    let Asked::Do(given) = options("queue", &known, words)? else { return Ok(Asked::Help) };
    let names: Vec<&str> = given.keys().copied().collect();
    Ok(Asked::Do(match names[..] {
        ["-list"] => Request::List,
        ["-status"] => Request::Status(given["-status"][0].to_owned()),
        _ => return Err(Wrong::new("")),
    }))
}

pub(super) fn answer(client: &JobClient, request: Request) -> Result<u8> {
    let queues = client.queues()?;
    let slot_count = client.tracker()?.slot_count;
    let weights = queues.iter().map(|queue| u64::from(queue.weight)).sum();
    let texts = |queue: &QueueReport| text(queue, weights, slot_count);
    match request {
        Request::List => {
            queues.iter().for_each(|queue| say!("{}", texts(queue).trim_end()));
        }
        Request::Status(name) => match queues.iter().find(|queue| queue.name == name) {
            Some(queue) => say!("{}", texts(queue).trim_end()),
            None => {
                report!("Cannot get queue from RM by queueName = {name}, please check.");
                return Ok(EXIT_USAGE);
            }
        },
    }
    Ok(EXIT_OK)
}

/// A queue in YARN's words. Its capacity is its part of all weights; its current one, what it uses of its share.
fn text(queue: &QueueReport, weights: u64, slot_count: u32) -> String {
    let percent = |part: f64, whole: f64| if whole > 0.0 { part / whole * 100.0 } else { 0.0 };
    let capacity = percent(f64::from(queue.weight), weights as f64);
    let used = percent(f64::from(queue.slot_count), queue.share_permille as f64 / 1000.0);
    let most = match queue.slots_max {
        0 => 100.0,
        most => percent(f64::from(most), f64::from(slot_count)).min(100.0),
    };
    let state = if queue.running { "RUNNING" } else { "STOPPED" };
    let jobs = match queue.running_jobs_max {
        0 => i32::MAX.unsigned_abs(),
        most => most,
    };
    format!(
        "Queue Information : \nScheduler Name : {}\nQueue Name : {}\n\tState : {state}\n\tCapacity : {capacity:.2}%\n\
         \tCurrent Capacity : {used:.2}%\n\tMaximum Capacity : {most:.2}%\n\tWeight : {:.2}\n\tMaximum Parallel Apps : {jobs}\n",
        queue.policy,
        queue.name,
        f64::from(queue.weight),
    )
}

#[cfg(test)]
mod tests {
    use super::super::words::asked;
    use super::*;

    #[test]
    fn what_is_asked() {
        let parse = |line: &str| asked(parse, line);
        assert_eq!(parse("-list"), Ok(Request::List));
        assert_eq!(parse("-status etl"), Ok(Request::Status("etl".to_owned())));
        assert_eq!(parse("-help"), Err("help".to_owned()));
        assert_eq!(parse(""), Err(String::new()));
        assert!(parse("-status").unwrap_err().contains("Missing argument for option -status"));
        assert!(parse("-subClusterId x").unwrap_err().contains("is not supported"));
    }

    #[test]
    fn a_queue_reads_as_yarns() {
        let queue = QueueReport {
            name: "etl".to_owned(),
            running: true,
            policy: "fair".to_owned(),
            weight: 1,
            slots_min: 0,
            slots_max: 2,
            user_slots_max: 0,
            running_jobs_max: 0,
            share_permille: 2000,
            slot_count: 1,
            demand: 1,
            job_count: 1,
            started_job_count: 1,
        };
        let text = text(&queue, 4, 8);
        for part in [
            "Queue Name : etl\n\tState : RUNNING\n\tCapacity : 25.00%\n\tCurrent Capacity : 50.00%\n",
            "\tMaximum Capacity : 25.00%\n\tWeight : 1.00\n\tMaximum Parallel Apps : 2147483647\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
        let free = QueueReport { slots_max: 0, running: false, share_permille: 0, ..queue };
        let text = super::text(&free, 0, 0);
        assert!(text.contains("STOPPED") && text.contains("Maximum Capacity : 100.00%"), "{text}");
    }
}
