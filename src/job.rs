//! `hanno job`: Hadoop's job command, as far as it is about one job or the list of them.

use std::ffi::OsString;
use std::io::Write;

use anyhow::{Context, Result};
use client::job::{JobClient, JobError};
use protocol::jobs::{Counters, JobReport, JobState, TaskReport};
use protocol::{ErrorKind, JobId};

use crate::connect::{Overrides, describe, job_client};
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, print_json, unless_reader_left};

const USAGE: &str = "\
Usage: hanno job COMMAND

  -list [all] [--json]            jobs that run; with `all' the finished ones too
  -status ID [--json]             where a job stands, with its counters
  -kill ID                        end a job
  -counter ID GROUP NAME          one counter, e.g. 'Map-Reduce Framework' 'Map input records'
  -logs ID                        what the attempts of a job wrote on standard output and error

Examples:
  hanno job -list
  hanno job -status job_202611201830_0001
  hanno job -counter job_202611201830_0001 org.apache.hadoop.mapreduce.TaskCounter MAP_INPUT_RECORDS
";

/// Class-like names of groups and the names people know.
const GROUPS: [(&str, &str); 5] = [
    ("org.apache.hadoop.mapreduce.TaskCounter", "Map-Reduce Framework"),
    ("org.apache.hadoop.mapreduce.JobCounter", "Job Counters"),
    ("org.apache.hadoop.mapreduce.FileSystemCounter", "File System Counters"),
    ("org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter", "File Input Format Counters"),
    (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter",
        "File Output Format Counters",
    ),
];

/// Names of counters whose display names are not just the same words.
const NAMES: [(&str, &str); 14] = [
    ("SPLIT_RAW_BYTES", "Input split bytes"),
    ("FAILED_SHUFFLE", "Failed Shuffles"),
    ("CPU_MILLISECONDS", "CPU time spent (ms)"),
    ("GC_TIME_MILLIS", "GC time elapsed (ms)"),
    ("PHYSICAL_MEMORY_BYTES", "Physical memory (bytes) snapshot"),
    ("VIRTUAL_MEMORY_BYTES", "Virtual memory (bytes) snapshot"),
    ("NUM_FAILED_MAPS", "Failed map tasks"),
    ("NUM_FAILED_REDUCES", "Failed reduce tasks"),
    ("NUM_KILLED_MAPS", "Killed map tasks"),
    ("NUM_KILLED_REDUCES", "Killed reduce tasks"),
    ("TOTAL_LAUNCHED_MAPS", "Launched map tasks"),
    ("TOTAL_LAUNCHED_REDUCES", "Launched reduce tasks"),
    ("DATA_LOCAL_MAPS", "Data-local map tasks"),
    ("RACK_LOCAL_MAPS", "Rack-local map tasks"),
];

#[derive(Clone, PartialEq, Eq, Debug)]
enum Request {
    Help,
    List { all: bool },
    Status(String),
    Kill(String),
    Counter { id: String, group: String, name: String },
    Logs(String),
}

/// Runs the command line after `job` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let mut words: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let count = words.len();
    words.retain(|word| word != "--json" && word != "-json");
    let json = words.len() < count;
    let Some(request) = parse(&words) else {
        eprint!("{USAGE}");
        return EXIT_USAGE;
    };
    if request == Request::Help {
        print!("{USAGE}");
        return EXIT_OK;
    }
    match answer(&request, json, overrides) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("job: {}", describe(error.as_ref()));
            EXIT_FAILED
        }
    }
}

fn parse(words: &[String]) -> Option<Request> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (first, rest) = words.split_first()?;
    let name = first.trim_start_matches('-');
    Some(match (name, rest) {
        ("help" | "h", _) => Request::Help,
        ("list", []) => Request::List { all: false },
        ("list", ["all" | "-all"]) => Request::List { all: true },
        ("status", [id]) => Request::Status((*id).to_owned()),
        ("kill", [id]) => Request::Kill((*id).to_owned()),
        ("logs", [id]) => Request::Logs((*id).to_owned()),
        ("counter", [id, group, name]) => Request::Counter {
            id: (*id).to_owned(),
            group: (*group).to_owned(),
            name: (*name).to_owned(),
        },
        _ => return None,
    })
}

fn answer(request: &Request, json: bool, overrides: &Overrides) -> Result<u8> {
    let client = job_client(&overrides.config()?)?;
    let id_text = match request {
        Request::List { all } => return list(&client, *all, json),
        Request::Help => return Ok(EXIT_OK),
        Request::Status(id) | Request::Kill(id) | Request::Logs(id) => id,
        Request::Counter { id, .. } => id,
    };
    let Ok(id) = id_text.parse::<JobId>() else {
        return Ok(unknown(id_text));
    };
    let done = match request {
        Request::Kill(_) => client.kill(id).map(|()| println!("Killed job {id}")),
        Request::Logs(_) => return logs(&client, id),
        Request::Counter { group, name, .. } => {
            client.status(id).map(|report| println!("{}", counter(&report.counters, group, name)))
        }
        _ => match client.status(id) {
            Ok(report) if json => {
                print_json(&report)?;
                Ok(())
            }
            Ok(report) => {
                print!("{}", status_text(&report, client.address()));
                Ok(())
            }
            Err(error) => Err(error),
        },
    };
    known(done, id)
}

fn known(outcome: Result<(), JobError>, id: JobId) -> Result<u8> {
    match outcome {
        Ok(()) => Ok(EXIT_OK),
        Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => Ok(unknown(&id.to_string())),
        Err(error) => Err(error.into()),
    }
}

fn unknown(id: &str) -> u8 {
    eprintln!("Could not find job {id}");
    EXIT_USAGE
}

fn list(client: &JobClient, all: bool, json: bool) -> Result<u8> {
    let mut jobs = client.list()?;
    jobs.retain(|job| all || !job.state.is_final());
    if json {
        print_json(&jobs)?;
    } else {
        print!("{}", list_text(&jobs));
    }
    Ok(EXIT_OK)
}

fn list_text(jobs: &[JobReport]) -> String {
    let mut text = format!(
        "Total jobs:{}\nJobId\tState\tStartTime\tUserName\tPriority\tSchedulingInfo\n",
        jobs.len()
    );
    for job in jobs {
        let JobReport { id, user, submitted_ms, .. } = job;
        let state = state_text(job.state);
        text.push_str(&format!("{id}\t{state}\t{submitted_ms}\t{user}\tNORMAL\tNA\n"));
    }
    text
}

fn state_text(state: JobState) -> &'static str {
    match state {
        JobState::Running | JobState::Committing => "RUNNING",
        JobState::Succeeded => "SUCCEEDED",
        JobState::Failed => "FAILED",
        JobState::Killed => "KILLED",
    }
}

fn status_text(job: &JobReport, jobtracker: &str) -> String {
    let JobReport { id, name, map_progress, reduce_progress, .. } = job;
    let mut text = format!(
        "\nJob: {id}\nJob Name: {name}\nJob Tracking URL : {jobtracker}/jobs/{id}\n\
         Number of maps: {}\nNumber of reduces: {}\n\
         map() completion: {map_progress:?}\nreduce() completion: {reduce_progress:?}\n\
         Job state: {}\nretired: false\n",
        job.maps.total,
        job.reduces.total,
        state_text(job.state),
    );
    if !job.diagnostics.is_empty() {
        text.push_str(&format!("reason for failure: {}\n", job.diagnostics));
    }
    let count: usize = job.counters.0.values().map(|names| names.len()).sum();
    text.push_str(&format!("Counters: {count}\n"));
    for (group, names) in &job.counters.0 {
        text.push_str(&format!("\t{}\n", display(group, &GROUPS)));
        for (name, value) in names {
            text.push_str(&format!("\t\t{}={value}\n", counter_display(name)));
        }
    }
    text
}

fn display<'a>(name: &'a str, table: &'a [(&str, &'a str)]) -> &'a str {
    table.iter().find(|(known, _)| *known == name).map_or(name, |(_, display)| display)
}

/// `MAP_INPUT_RECORDS` -> `Map input records`.
fn counter_display(name: &str) -> String {
    let known = display(name, &NAMES);
    let is_constant = known == name
        && name.contains('_')
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    if !is_constant {
        return known.to_owned();
    }
    let lower = name.to_ascii_lowercase().replace('_', " ");
    lower[..1].to_ascii_uppercase() + &lower[1..]
}

/// One counter under any of the names that its group and it have; 0 if it was never counted.
fn counter(counters: &Counters, group: &str, name: &str) -> u64 {
    let groups = counters
        .0
        .iter()
        .filter(|(known, _)| same(display(known, &GROUPS), display(group, &GROUPS)));
    groups
        .flat_map(|(_, names)| names)
        .find(|(known, _)| same(&counter_display(known), &counter_display(name)))
        .map_or(0, |(_, value)| *value)
}

/// Names are the same if their letters and digits are.
fn same(left: &str, right: &str) -> bool {
    let letters = |text: &str| -> Vec<char> {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    letters(left) == letters(right)
}

fn logs(client: &JobClient, id: JobId) -> Result<u8> {
    let tasks = match client.tasks(id) {
        Ok(tasks) => tasks,
        Err(error) => return known(Err(error), id),
    };
    let mut out = std::io::stdout().lock();
    let mut code = EXIT_OK;
    for attempt in tasks.iter().flat_map(|task: &TaskReport| &task.attempts) {
        let header = format!("=== {} {} on {}\n", attempt.id, attempt.state, attempt.host);
        let log = client.log(&attempt.log_url);
        let written = match &log {
            Ok(log) => out.write_all(header.as_bytes()).and_then(|()| out.write_all(log)),
            Err(error) => {
                code = EXIT_FAILED;
                eprintln!("job: the log of {} is gone: {}", attempt.id, describe(error));
                Ok(())
            }
        };
        if !unless_reader_left(written).context("cannot write to standard output")? {
            break;
        }
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::DfsPath;
    use protocol::jobs::TaskCounts;

    fn report() -> JobReport {
        let mut counters = Counters::default();
        counters.add("org.apache.hadoop.mapreduce.TaskCounter", "MAP_INPUT_RECORDS", 7);
        counters.add("Job Counters", "Launched map tasks", 2);
        counters.add("Mine", "Bad lines", 3);
        JobReport {
            id: "job_202611201830_0001".to_owned(),
            name: "word count".to_owned(),
            user: "ann".to_owned(),
            state: JobState::Failed,
            maps: TaskCounts { total: 2, ..TaskCounts::default() },
            reduces: TaskCounts { total: 1, ..TaskCounts::default() },
            map_progress: 1.0,
            reduce_progress: 0.5,
            submitted_ms: 1_767_609_005_000,
            finished_ms: 0,
            counters,
            diagnostics: "it broke".to_owned(),
            output: DfsPath::root(),
        }
    }

    #[test]
    fn arguments() {
        let parse = |words: &[&str]| {
            parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parse(&["-list"]), Some(Request::List { all: false }));
        assert_eq!(parse(&["list", "all"]), Some(Request::List { all: true }));
        assert_eq!(parse(&["--kill", "x"]), Some(Request::Kill("x".into())));
        assert_eq!(
            parse(&["-counter", "i", "g", "n"]),
            Some(Request::Counter { id: "i".into(), group: "g".into(), name: "n".into() })
        );
        for words in [&[][..], &["-list", "some"], &["-status"], &["-counter", "i", "g"], &["x"]] {
            assert_eq!(parse(words), None, "{words:?}");
        }
    }

    #[test]
    fn texts() {
        assert_eq!(
            list_text(&[report()]),
            "Total jobs:1\nJobId\tState\tStartTime\tUserName\tPriority\tSchedulingInfo\n\
             job_202611201830_0001\tFAILED\t1767609005000\tann\tNORMAL\tNA\n"
        );
        assert_eq!(
            status_text(&report(), "http://h:1"),
            "\nJob: job_202611201830_0001\nJob Name: word count\n\
             Job Tracking URL : http://h:1/jobs/job_202611201830_0001\n\
             Number of maps: 2\nNumber of reduces: 1\n\
             map() completion: 1.0\nreduce() completion: 0.5\nJob state: FAILED\nretired: false\n\
             reason for failure: it broke\nCounters: 3\n\tJob Counters\n\t\tLaunched map tasks=2\n\
             \tMine\n\t\tBad lines=3\n\tMap-Reduce Framework\n\t\tMap input records=7\n"
        );
    }

    #[test]
    fn counters_have_several_names() {
        let counters = report().counters;
        for (group, name, value) in [
            ("org.apache.hadoop.mapreduce.TaskCounter", "MAP_INPUT_RECORDS", 7),
            ("Map-Reduce Framework", "Map input records", 7),
            ("Map-Reduce Framework", "MAP_INPUT_RECORDS", 7),
            ("org.apache.hadoop.mapreduce.JobCounter", "TOTAL_LAUNCHED_MAPS", 2),
            ("Job Counters ", "Launched map tasks", 2),
            ("Mine", "Bad lines", 3),
            ("Mine", "Good lines", 0),
            ("Other", "Bad lines", 0),
        ] {
            assert_eq!(counter(&counters, group, name), value, "{group} {name}");
        }
    }
}
