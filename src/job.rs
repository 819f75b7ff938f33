//! `hanno job`: Hadoop's job command, for one job or the list of jobs.

mod attempts;
mod config;
mod exit;
mod history;
pub(crate) mod logs;
pub(crate) mod queues;
mod replay;
pub(crate) mod trackers;
mod wrong;

use std::ffi::OsString;

use anyhow::Result;
use clap::Parser;
use client::job::{JobClient, counter_value, counters_text};
use mr_api::streaming::Voice;
use protocol::jobs::{JobReport, JobState, Priority, RoundMeasure, RoundsReport};
use protocol::property::Class;
use protocol::record::SKIP_DIRECTORY;
use protocol::{AttemptId, ErrorKind, JobId, TaskKind};
use serde::Serialize;

use self::exit::{known, unknown, with_args};
use self::wrong::{Wrong, too_many};
use crate::absent;
use crate::connect::{Overrides, describe, job_client};
use crate::generic::{self, generic, texts};
use crate::output::{
    EXIT_FAILED, EXIT_OK, EXIT_USAGE, human_size, log_lead, print_json, report, report_text, say,
};
use crate::reference::Outline;
use crate::top::{self, TopArgs};

/// Group of the counters of tasks.
const TASK_COUNTERS: &str = "org.apache.hadoop.mapreduce.TaskCounter";

/// Measures of a job in rounds that its status lists: the newest.
const MEASURES_SHOWN: usize = 20;

const USAGE: &str = "\
Usage: hanno job COMMAND

  -list [all] [--json]            jobs that run; with `all' the finished ones too
  -status ID [--json]             where a job stands, with its counters
  -kill ID                        end a job
  -kill-task ATTEMPT              end an attempt; another follows
  -fail-task ATTEMPT              the same, as a failure of its task
  -set-priority ID PRIORITY       VERY_HIGH, HIGH, NORMAL, LOW or VERY_LOW
  -history [all] ID|FILE [-outfile FILE] [-format human|json]
                                  how a job went, also of one that left the list; `all' lists every attempt
  -config ID FILE                 write what properties a job was submitted with, as XML
  -events ID FROM COUNT [--json]  how attempts ended, in that order
  -list-attempt-ids ID TYPE STATE [--json]
                                  MAP or REDUCE; running, completed, failed or killed
  -list-active-trackers [--json]  workers that take tasks
  -list-blacklisted-trackers [--json]
                                  workers that get none, and why
  -counter ID GROUP NAME [--json] one counter, e.g. 'Map-Reduce Framework' 'Map input records'
  streaming …                     run commands as mapper and reducer (`hanno job streaming -help')
  properties                      what each property of Hadoop's does here
  top [--once] [--interval SECONDS]
                                  watch jobs, queues and slots; Ctrl-C ends it
  replay [--stop-before-failure] [--debugger COMMAND] ATTEMPT
                                  run an attempt again on this machine (`hanno job replay --help')
  -logs [--failed] [--follow] ID|ATTEMPT
                                  what attempts wrote on standard output and error

Examples:
  hanno job -list
  hanno job -status job_202611201830_0001
  hanno job replay attempt_202611201830_0001_m_000005_3
  hanno job -counter job_202611201830_0001 org.apache.hadoop.mapreduce.TaskCounter MAP_INPUT_RECORDS
";

#[derive(Clone, PartialEq, Eq, Debug)]
enum Request {
    Help,
    List { all: bool },
    Status(String),
    Kill(String),
    Counter { id: String, group: String, name: String },
    StopTask { attempt: String, fail: bool },
    SetPriority { id: String, priority: String },
    Events { id: String, from: usize, count: usize },
    AttemptIds { id: String, kind: TaskKind, state: String },
    Trackers { blacklisted: bool },
    History(history::Wanted),
    Config { id: String, file: String },
}

/// `-counter --json`.
#[derive(Serialize)]
struct OneCounter<'a> {
    group: &'a str,
    name: &'a str,
    value: u64,
}

impl Request {
    /// True for what a script would read.
    fn has_json(&self) -> bool {
        match self {
            Request::List { .. }
            | Request::Status(_)
            | Request::Counter { .. }
            | Request::Events { .. }
            | Request::AttemptIds { .. }
            | Request::Trackers { .. }
            | Request::History(_) => true,
            Request::Help
            | Request::Kill(_)
            | Request::StopTask { .. }
            | Request::SetPriority { .. }
            | Request::Config { .. } => false,
        }
    }
}

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_commands(USAGE)
}

/// The options of `streaming` for completions and the manual page.
pub(crate) fn streaming_outline() -> Outline {
    Outline::with_options(mr_api::streaming::HELP)
}

/// Runs the command line after `job` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => {
            report!("job: {text}");
            return EXIT_USAGE;
        }
    };
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    dispatch(&words, &overrides)
}

fn dispatch(arguments: &[OsString], overrides: &Overrides) -> u8 {
    match arguments.split_first() {
        Some((first, rest)) if first == "streaming" || first == "-streaming" => {
            stream(rest, overrides, Voice::Plain)
        }
        Some((first, [])) if first == "properties" || first == "-properties" => {
            say!("{}", protocol::property::markdown().trim_end());
            EXIT_OK
        }
        Some((first, rest)) if first == "top" || first == "-top" => watch(rest, overrides),
        Some((first, rest)) if first == "logs" || first == "-logs" => logs::run(rest, overrides),
        Some((first, rest)) if first == "replay" || first == "-replay" => {
            replay::run(rest, overrides)
        }
        _ => command(arguments, overrides),
    }
}

/// `hanno job top`.
pub(crate) fn watch(arguments: &[OsString], overrides: &Overrides) -> u8 {
    with_args("hanno job top", arguments, |Top { args }| top::jobs(&args, overrides))
}

/// Watch jobs, queues and slots in the terminal.
#[derive(Parser)]
#[command(
    name = "hanno job top",
    after_help = "Examples:\n  hanno job top\n  hanno job top --once"
)]
struct Top {
    #[command(flatten)]
    args: TopArgs,
}

/// `mapred streaming`, with the messages of Hadoop's own.
pub(crate) fn streaming(arguments: &[OsString], overrides: &Overrides) -> u8 {
    stream(arguments, overrides, Voice::Log(log_lead))
}

/// `hanno job streaming`: this program is the job's driver, and on the workers its task runner.
fn stream(arguments: &[OsString], overrides: &Overrides, voice: Voice) -> u8 {
    let mut words = Vec::new();
    for (option, value) in
        [("--namenode", &overrides.namenode), ("--jobtracker", &overrides.jobtracker)]
    {
        words.extend(value.iter().flat_map(|value| [option.to_owned(), value.clone()]));
    }
    // Such files also configure daemons and other programs; what a job has no use for is theirs.
    let is_of_jobs = |name: &str| {
        let row = protocol::property::row(name);
        row.is_some_and(|row| matches!(row.class, Class::Honoured { .. }))
    };
    let site = overrides.site.iter();
    let site = site.filter(|(name, _)| is_of_jobs(name) && !generic::names_file_system(name));
    words.extend(site.map(|(name, value)| mr_api::streaming::as_default(name, value)));
    if let Some((option, text)) = &overrides.file_system {
        let property = || format!("fs.defaultFS={text}");
        match *option {
            "-fs" => words.extend(["-fs".to_owned(), text.clone()]),
            _ => words.extend(["-D".to_owned(), property()]),
        }
    }
    match texts(arguments) {
        Ok(texts) => words.extend(texts),
        Err(text) => {
            report!("streaming: {text}");
            return EXIT_USAGE;
        }
    }
    mr_api::streaming::run(&["job", "streaming"], &words, voice)
}

/// `hadoop jar …/hadoop-streaming-3.3.6.jar …`: what that jar does is built in; Java is not.
pub(crate) fn jar(arguments: &[OsString], overrides: &Overrides) -> u8 {
    match arguments.split_first() {
        Some((jar, rest)) if jar.to_string_lossy().contains("hadoop-streaming") => {
            streaming(rest, overrides)
        }
        _ => {
            report!("jar: only hadoop-streaming is known here: Java programs do not run");
            EXIT_USAGE
        }
    }
}

fn command(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let mut words = match texts(arguments) {
        Ok(words) => words,
        Err(text) => {
            report!("job: {text}");
            return EXIT_USAGE;
        }
    };
    let count = words.len();
    words.retain(|word| word != "--json" && word != "-json");
    let json = words.len() < count;
    let request = match parse(&words) {
        Ok(request) => request,
        Err(wrong) => {
            let name = words.first().map_or("", |word| word.trim_start_matches('-'));
            if absent::refuse("job", name, absent::JOB) {
                return EXIT_USAGE;
            }
            if wrong != Wrong::Nothing {
                report!("job: {wrong}");
            }
            report_text!("{USAGE}");
            return EXIT_USAGE;
        }
    };
    if request == Request::Help {
        say!("{}", USAGE.trim_end());
        return EXIT_OK;
    }
    if json && !request.has_json() {
        report!("job: {} has no --json", words[0]);
        return EXIT_USAGE;
    }
    if json {
        crate::output::only_json();
    }
    match answer(&request, json, overrides) {
        Ok(code) => code,
        Err(error) => {
            report!("job: {}", describe(error.as_ref()));
            EXIT_FAILED
        }
    }
}

/// Commands with the words that must follow.
const FORMS: &[(&str, &[&str])] = &[
    ("status", &["ID"]),
    ("kill", &["ID"]),
    ("kill-task", &["ATTEMPT"]),
    ("fail-task", &["ATTEMPT"]),
    ("set-priority", &["ID", "PRIORITY"]),
    ("events", &["ID", "FROM", "COUNT"]),
    ("list-attempt-ids", &["ID", "TYPE", "STATE"]),
    ("config", &["ID", "FILE"]),
    ("list-active-trackers", &[]),
    ("list-blacklisted-trackers", &[]),
    ("counter", &["ID", "GROUP", "NAME"]),
    ("properties", &[]),
];

fn parse(words: &[String]) -> Result<Request, Wrong> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (option, rest) = words.split_first().ok_or(Wrong::Nothing)?;
    let name = option.trim_start_matches('-');
    let not = |word: &str, expected| {
        let (option, word) = ((*option).to_owned(), word.to_owned());
        Wrong::Word { option, word, expected }
    };
    let text = |word: &str| word.to_owned();
    Ok(match (name, rest) {
        ("help" | "h", _) => Request::Help,
        ("list", []) => Request::List { all: false },
        ("list", ["all" | "-all"]) => Request::List { all: true },
        ("list", [word]) => return Err(not(word, "`all'")),
        ("list", [_, word, ..]) => return Err(too_many(option, word)),
        ("status", [id]) => Request::Status(text(id)),
        ("kill", [id]) => Request::Kill(text(id)),
        ("kill-task" | "fail-task", [attempt]) => {
            Request::StopTask { attempt: text(attempt), fail: name == "fail-task" }
        }
        ("set-priority", [id, priority]) => {
            Request::SetPriority { id: text(id), priority: text(priority) }
        }
        ("events", [id, from, count]) => {
            let number = |word: &str| word.parse().map_err(|_| not(word, "a number from 0"));
            Request::Events { id: text(id), from: number(from)?, count: number(count)? }
        }
        ("list-attempt-ids", [id, kind, state]) => Request::AttemptIds {
            id: text(id),
            kind: match kind.to_ascii_uppercase().as_str() {
                "MAP" => TaskKind::Map,
                "REDUCE" => TaskKind::Reduce,
                _ => return Err(not(kind, "MAP or REDUCE")),
            },
            state: attempt_state(state)
                .ok_or_else(|| not(state, "running, completed, failed or killed"))?,
        },
        ("history", rest) => Request::History(history::Wanted::parse(option, rest)?),
        ("config", [id, file]) => Request::Config { id: text(id), file: text(file) },
        ("list-active-trackers", []) => Request::Trackers { blacklisted: false },
        ("list-blacklisted-trackers", []) => Request::Trackers { blacklisted: true },
        ("counter", [id, group, name]) => {
            Request::Counter { id: text(id), group: text(group), name: text(name) }
        }
        _ => return Err(unfit(option, rest)),
    })
}

/// What is wrong with a command line that has no meaning: its command, or the number of words after that.
fn unfit(option: &str, rest: &[&str]) -> Wrong {
    let name = option.trim_start_matches('-');
    let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) else {
        return Wrong::Command(option.to_owned());
    };
    match rest.get(form.len()) {
        Some(word) => too_many(option, word),
        None => {
            let what = form.get(rest.len()).copied().unwrap_or("a word");
            Wrong::Missing { option: option.to_owned(), what }
        }
    }
}

fn answer(request: &Request, json: bool, overrides: &Overrides) -> Result<u8> {
    if let Request::History(wanted) = request {
        let wanted = history::Wanted { json: json || wanted.json, ..wanted.clone() };
        return history::run(&wanted, overrides);
    }
    let client = job_client(&overrides.config()?)?;
    let id_text = match request {
        Request::List { all } => return list(&client, *all, json),
        Request::Help | Request::History(_) => return Ok(EXIT_OK),
        Request::Trackers { blacklisted } => return trackers::list(&client, *blacklisted, json),
        Request::StopTask { attempt, fail } => return stop_task(&client, attempt, *fail),
        Request::Status(id) | Request::Kill(id) => id,
        Request::Counter { id, .. }
        | Request::SetPriority { id, .. }
        | Request::Config { id, .. }
        | Request::Events { id, .. }
        | Request::AttemptIds { id, .. } => id,
    };
    let Ok(id) = id_text.parse::<JobId>() else {
        return Ok(unknown(id_text));
    };
    let done = match request {
        Request::Kill(_) => return kill(&client, id),
        Request::SetPriority { priority, .. } => return set_priority(&client, id, priority),
        Request::Events { from, count, .. } => match client.tasks(id) {
            Ok(tasks) if json => print_json(&attempts::events(&tasks, *from, *count)).map(Ok)?,
            Ok(tasks) => {
                let text = attempts::events_text((id, client.address()), &tasks, *from, *count);
                say!("{}", text.trim_end());
                Ok(())
            }
            Err(error) => Err(error),
        },
        Request::AttemptIds { kind, state, .. } => match client.tasks(id) {
            Ok(tasks) if json => print_json(&attempts::ids(&tasks, *kind, state)).map(Ok)?,
            Ok(tasks) => {
                attempts::ids(&tasks, *kind, state).iter().for_each(|id| say!("{id}"));
                Ok(())
            }
            Err(error) => Err(error),
        },
        Request::Config { file, .. } => return config::write(&client, id, file),
        Request::Counter { group, name, .. } => {
            let report = match client.status(id) {
                Ok(report) => report,
                Err(error) => return known(Err(error), id),
            };
            let value = counter_value(&report.counters, group, name);
            match json {
                true => print_json(&OneCounter { group, name, value })?,
                false => say!("{value}"),
            }
            Ok(())
        }
        _ => match client.status(id) {
            Ok(report) if json => {
                print_json(&report)?;
                Ok(())
            }
            Ok(report) => {
                say!("{}", status_text(&report, client.address()).trim_end());
                Ok(())
            }
            Err(error) => Err(error),
        },
    };
    known(done, id)
}

/// Ends an unfinished job.
fn kill(client: &JobClient, id: JobId) -> Result<u8> {
    let state = match client.status(id) {
        Ok(report) => Some(report.state),
        // A user who may end it may lack the right to view it.
        Err(error) if error.kind() == Some(ErrorKind::PermissionDenied) => None,
        Err(error) => return known(Err(error), id),
    };
    if let Some(refusal) = state.and_then(|state| kill_refusal(id, state)) {
        say!("{refusal}");
        return Ok(EXIT_USAGE);
    }
    known(client.kill(id).map(|()| say!("Killed job {id}")), id)
}

/// Hadoop's words for a job that is already over.
fn kill_refusal(id: JobId, state: JobState) -> Option<String> {
    match state {
        JobState::Running | JobState::Committing => None,
        JobState::Succeeded => {
            Some(format!("Could not kill the job {id}, as it has already succeeded."))
        }
        JobState::Failed => {
            Some(format!("Could not mark the job {id} as killed, as it has already failed."))
        }
        JobState::Killed => Some(format!("The job {id} has already been killed.")),
    }
}

fn set_priority(client: &JobClient, id: JobId, priority: &str) -> Result<u8> {
    let Some(priority) = Priority::from_name(priority) else {
        let names = Priority::ALL.map(Priority::name).join(" ");
        report!("job: {priority} is no priority; there are {names}");
        return Ok(EXIT_USAGE);
    };
    known(client.set_priority(id, priority).map(|()| say!("Changed job priority.")), id)
}

fn stop_task(client: &JobClient, attempt: &str, fail: bool) -> Result<u8> {
    let Ok(id) = attempt.parse::<AttemptId>() else {
        report!("job: {attempt} is no attempt; an example is attempt_202611201830_0001_m_000005_0");
        return Ok(EXIT_USAGE);
    };
    let how = if fail { " by failing it" } else { "" };
    let stopped = client.stop_attempt(id, fail).map(|()| say!("Killed task {id}{how}"));
    known(stopped, id.task.job)
}

/// A state of attempts as `-list-attempt-ids` takes it, in our words.
fn attempt_state(name: &str) -> Option<String> {
    Some(match name.to_ascii_lowercase().as_str() {
        "running" => "RUNNING".to_owned(),
        "completed" | "succeeded" => "SUCCEEDED".to_owned(),
        "failed" => "FAILED".to_owned(),
        "killed" => "KILLED".to_owned(),
        _ => return None,
    })
}

fn list(client: &JobClient, all: bool, json: bool) -> Result<u8> {
    let mut jobs = client.list()?;
    jobs.retain(|job| all || !job.state.is_final());
    if json {
        print_json(&jobs)?;
    } else {
        say!("{}", list_text(&jobs).trim_end());
    }
    Ok(EXIT_OK)
}

/// The table of jobs.
pub(crate) fn list_text(jobs: &[JobReport]) -> String {
    let mut text = format!(
        "Total jobs:{}\nJobId\tState\tStartTime\tUserName\tQueue\tPriority\tSchedulingInfo\n",
        jobs.len()
    );
    for job in jobs {
        let JobReport { id, user, submitted_ms, queue, slot_count, .. } = job;
        let priority = job.priority.name();
        let state = state_text(job.state);
        text.push_str(&format!(
            "{id}\t{state}\t{submitted_ms}\t{user}\t{queue}\t{priority}\t{slot_count} slots\n"
        ));
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
    if let Some(rounds) = &job.rounds {
        text.push_str(&rounds_text(rounds));
    }
    if job.read_records_per_s > 0 || job.read_bytes_per_s > 0 {
        let (records, bytes) = (job.read_records_per_s, human_size(job.read_bytes_per_s));
        text.push_str(&format!("running maps read {records} records and {bytes} a second\n"));
    }
    if !job.diagnostics.is_empty() {
        text.push_str(&format!("reason for failure: {}\n", job.diagnostics));
    }
    let skipped = job.counters.value(TASK_COUNTERS, "MAP_SKIPPED_RECORDS");
    if skipped > 0 {
        let where_to = if job.state == JobState::Succeeded { "named in" } else { "to be named in" };
        let (output, directory) = (&job.output, SKIP_DIRECTORY);
        text.push_str(&format!("skipped records: {skipped}, {where_to} {output}/{directory}\n"));
    }
    text.push_str(&counters_text(&job.counters));
    text
}

/// How far a job in rounds has come, with the newest of its measures.
fn rounds_text(rounds: &RoundsReport) -> String {
    let mut text = format!("round {} of at most {}\n", rounds.newest, rounds.last);
    let skipped = rounds.measures.len().saturating_sub(MEASURES_SHOWN);
    for RoundMeasure { round, measure } in rounds.measures.iter().skip(skipped) {
        text.push_str(&format!("measure after round {round}: {measure}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::DfsPath;
    use protocol::jobs::{Counters, TaskCounts};

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
            read_records_per_s: 0,
            read_bytes_per_s: 0,
            diagnostics: "it broke".to_owned(),
            output: DfsPath::root(),
            queue: "etl".to_owned(),
            priority: Priority::High,
            slot_count: 3,
            is_outline: false,
            rounds: None,
        }
    }

    #[test]
    fn the_status_of_a_job_in_rounds_names_the_round_and_the_newest_measures() {
        let at = |round: u32| RoundMeasure { round, measure: f64::from(round) / 2.0 };
        let rounds = RoundsReport { newest: 31, last: 99, measures: (0..31).map(at).collect() };
        let text = status_text(&JobReport { rounds: Some(rounds), ..report() }, "http://jt");
        assert!(text.contains("\nround 31 of at most 99\nmeasure after round 11: 5.5\n"), "{text}");
        assert!(text.contains("\nmeasure after round 30: 15\n"), "{text}");
        assert!(!text.contains("after round 10:"), "{text}");
    }

    #[test]
    fn arguments() {
        // Hadoop 3.4's own list, except those in `crate::absent`.
        for line in [
            "-status ID",
            "-counter ID GROUP NAME",
            "-kill ID",
            "-set-priority ID HIGH",
            "-events ID 0 10",
            "-history ID",
            "-history all FILE -format json",
            "-list",
            "-list all",
            "-list-active-trackers",
            "-list-blacklisted-trackers",
            "-list-attempt-ids ID MAP running",
            "-kill-task ATTEMPT",
            "-fail-task ATTEMPT",
            "-config ID FILE",
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert!(parse(&words).is_ok(), "{line}");
        }
        let parse = |words: &[&str]| {
            parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parse(&["-list"]), Ok(Request::List { all: false }));
        assert_eq!(parse(&["list", "all"]), Ok(Request::List { all: true }));
        assert_eq!(parse(&["--kill", "x"]), Ok(Request::Kill("x".into())));
        assert_eq!(
            parse(&["-counter", "i", "g", "n"]),
            Ok(Request::Counter { id: "i".into(), group: "g".into(), name: "n".into() })
        );
        assert_eq!(
            parse(&["-fail-task", "a"]),
            Ok(Request::StopTask { attempt: "a".into(), fail: true })
        );
        assert_eq!(
            parse(&["-list-attempt-ids", "i", "map", "completed"]),
            Ok(Request::AttemptIds {
                id: "i".into(),
                kind: TaskKind::Map,
                state: "SUCCEEDED".into()
            })
        );
        for (words, text) in [
            (&[][..], "no command"),
            (&["-foo"], "-foo: Unknown command"),
            (&["x", "y"], "x: Unknown command"),
            (&["-list", "some"], "-list: `some' is not `all'"),
            (&["-list", "all", "x"], "-list: `x' is one word too many"),
            (&["-status"], "-status: ID is missing"),
            (&["-kill", "a", "b"], "-kill: `b' is one word too many"),
            (&["-counter", "i", "g"], "-counter: NAME is missing"),
            (&["-events", "i", "0"], "-events: COUNT is missing"),
            (&["-events", "i", "-1", "3"], "-events: `-1' is not a number from 0"),
            (
                &["-list-attempt-ids", "i", "SETUP", "running"],
                "-list-attempt-ids: `SETUP' is not MAP or REDUCE",
            ),
            (
                &["-list-attempt-ids", "i", "MAP", "x"],
                "-list-attempt-ids: `x' is not running, completed, failed or killed",
            ),
            (&["-history", ""], "-history: ID or FILE is missing"),
            (&["-history", "J", "-format", "xml"], "-format: `xml' is not human or json"),
            (&["-properties", "x"], "-properties: `x' is one word too many"),
        ] {
            assert_eq!(parse(words).unwrap_err().to_string(), text, "{words:?}");
        }
    }

    #[test]
    fn texts() {
        assert_eq!(
            list_text(&[report()]),
            "Total jobs:1\nJobId\tState\tStartTime\tUserName\tQueue\tPriority\tSchedulingInfo\n\
             job_202611201830_0001\tFAILED\t1767609005000\tann\tetl\tHIGH\t3 slots\n"
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
}
