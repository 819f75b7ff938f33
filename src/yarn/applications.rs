//! `yarn application`: the list of jobs, one of them, and its end.

use anyhow::Result;
use client::job::JobClient;
use protocol::jobs::{JobReport, JobState, Priority};
use protocol::{ErrorKind, JobId};

use super::ids;
use super::ids::Application;
use super::words::{Asked, Takes, Wrong, options};
use crate::output::{EXIT_OK, EXIT_USAGE, say};

pub(super) const USAGE: &str = "\
Usage: yarn application COMMAND

  -list [-appStates STATES] [-appTypes TYPES]
                                  jobs that wait or run; STATES are ALL, NEW, NEW_SAVING, SUBMITTED, ACCEPTED, RUNNING,
                                  FINISHED, FAILED, KILLED, with commas between them; the one type is MAPREDUCE
  -status ID                      where a job stands
  -kill ID ...                    end jobs
  -appId ID -updatePriority N     5 (VERY_HIGH) to 1 (VERY_LOW)

ID is application_… or job_…
";

/// The type of all jobs.
const TYPE: &str = "MAPREDUCE";
const NEEDS_ID: &str = "-updatePriority needs -appId ID";

/// States of an application, in YARN's order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum State {
    New,
    NewSaving,
    Submitted,
    /// It waits for its first slot.
    Accepted,
    Running,
    /// Its tasks are over, whether they succeeded or not.
    Finished,
    Failed,
    Killed,
}

impl State {
    const ALL: [State; 8] = [
        State::New,
        State::NewSaving,
        State::Submitted,
        State::Accepted,
        State::Running,
        State::Finished,
        State::Failed,
        State::Killed,
    ];

    /// Where a job stands. One that failed is FINISHED with the final state FAILED, as YARN has it of jobs whose tasks fail.
    pub(super) fn of(job: &JobReport) -> Self {
        let waits = |counts: protocol::jobs::TaskCounts| counts.pending == counts.total;
        match job.state {
            JobState::Running if job.slot_count == 0 && waits(job.maps) && waits(job.reduces) => {
                State::Accepted
            }
            JobState::Running | JobState::Committing => State::Running,
            JobState::Succeeded | JobState::Failed => State::Finished,
            JobState::Killed => State::Killed,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            State::New => "NEW",
            State::NewSaving => "NEW_SAVING",
            State::Submitted => "SUBMITTED",
            State::Accepted => "ACCEPTED",
            State::Running => "RUNNING",
            State::Finished => "FINISHED",
            State::Failed => "FAILED",
            State::Killed => "KILLED",
        }
    }

    fn named(text: &str) -> Option<Self> {
        State::ALL.into_iter().find(|state| state.name().eq_ignore_ascii_case(text))
    }
}

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    List { states: Vec<State>, types: Vec<String> },
    Status(JobId),
    Kill(Vec<JobId>),
    Priority(JobId, Priority, String),
}

pub(super) fn parse(words: &[String]) -> Result<Asked<Request>, Wrong> {
    let known = [
        ("-list", Takes::Nothing),
        ("-appStates", Takes::List),
        ("-appTypes", Takes::List),
        ("-status", Takes::One),
        ("-kill", Takes::List),
        ("-appId", Takes::One),
        ("-updatePriority", Takes::One),
    ];
    let Asked::Do(given) = options("application", &known, words)? else { return Ok(Asked::Help) };
    let names: Vec<&str> = given.keys().copied().collect();
    Ok(Asked::Do(match names[..] {
        [.., "-list"] if names.iter().all(|name| name.starts_with("-app") || *name == "-list") => {
            if given.contains_key("-appId") {
                return Err(Wrong::new("-list takes no -appId: give -status ID"));
            }
            let types = given.get("-appTypes").into_iter().flatten();
            Request::List {
                states: states(given.get("-appStates").map_or(&[], Vec::as_slice))?,
                types: types.map(|text| text.to_ascii_uppercase()).collect(),
            }
        }
        ["-status"] => Request::Status(ids::job(given["-status"][0])?),
        ["-kill"] => {
            let ids = given["-kill"].iter().map(|id| ids::job(id));
            Request::Kill(ids.collect::<Result<_, _>>()?)
        }
        ["-appId", "-updatePriority"] => {
            let text = given["-updatePriority"][0];
            let number = text.parse().ok().and_then(priority);
            let priority = number.ok_or_else(|| {
                Wrong::new(format!("`{text}` is no priority: 5 (VERY_HIGH) to 1 (VERY_LOW)"))
            })?;
            Request::Priority(ids::job(given["-appId"][0])?, priority, text.to_owned())
        }
        ["-updatePriority"] => return Err(Wrong::new(NEEDS_ID)),
        _ => return Err(Wrong::new("")),
    }))
}

/// The states of a list: those that wait or run, if none is named.
fn states(given: &[&str]) -> Result<Vec<State>, Wrong> {
    if given.is_empty() {
        return Ok(vec![State::Submitted, State::Accepted, State::Running]);
    }
    let mut states = Vec::new();
    for text in given {
        match State::named(text) {
            Some(state) => states.push(state),
            None if text.eq_ignore_ascii_case("ALL") => states.extend(State::ALL),
            None => {
                let all = State::ALL.map(State::name).join(",");
                return Err(Wrong::new(format!(
                    "The application state {text} is invalid.\nThe valid application state can be one of the following: ALL,{all}"
                )));
            }
        }
    }
    states.sort();
    states.dedup();
    Ok(states)
}

/// YARN's number of a priority.
fn number(priority: Priority) -> usize {
    let place = Priority::ALL.into_iter().position(|other| other == priority);
    Priority::ALL.len() - place.unwrap_or_default()
}

fn priority(wanted: usize) -> Option<Priority> {
    Priority::ALL.into_iter().find(|priority| number(*priority) == wanted)
}

pub(super) fn answer(client: &JobClient, request: Request) -> Result<u8> {
    match request {
        Request::List { states, types } => {
            let mut jobs = client.list()?;
            let of_type = types.is_empty() || types.iter().any(|text| text == TYPE);
            jobs.retain(|job| of_type && states.contains(&State::of(job)));
            say!("{}", list_text(client.address(), &jobs, &states, &types).trim_end());
            Ok(EXIT_OK)
        }
        Request::Status(id) => match client.status(id) {
            Ok(job) => {
                say!("{}", status_text(client.address(), id, &job).trim_end_matches('\n'));
                Ok(EXIT_OK)
            }
            Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => {
                let id = Application(id);
                say!("Application with id '{id}' doesn't exist in RM or Timeline Server.");
                Ok(EXIT_USAGE)
            }
            Err(error) => Err(error.into()),
        },
        Request::Kill(ids) => kill(client, &ids),
        Request::Priority(id, priority, text) => {
            let name = Application(id);
            say!("Updating priority of an application {name}");
            match client.set_priority(id, priority) {
                Ok(()) => {
                    say!(
                        "Successfully updated the application with id {name} with priority '{text}'"
                    );
                    Ok(EXIT_OK)
                }
                Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => Ok(unknown(id)),
                Err(error) => Err(error.into()),
            }
        }
    }
}

/// Ends jobs. As in YARN it is a success if one of them is known.
fn kill(client: &JobClient, ids: &[JobId]) -> Result<u8> {
    let mut code = EXIT_USAGE;
    for id in ids {
        let name = Application(*id);
        let is_over = match client.status(*id) {
            Ok(job) => job.state.is_final(),
            // A user who may end it may lack the right to view it.
            Err(error) if error.kind() == Some(ErrorKind::PermissionDenied) => false,
            Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => {
                unknown(*id);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        code = EXIT_OK;
        if is_over {
            say!("Application {name} has already finished ");
            continue;
        }
        say!("Killing application {name}");
        client.kill(*id)?;
    }
    Ok(code)
}

/// YARN's words for an application that it does not know.
pub(super) fn unknown(id: JobId) -> u8 {
    say!("Application with id '{}' doesn't exist in RM.", Application(id));
    EXIT_USAGE
}

/// The page of a job.
pub(super) fn tracking_url(address: &str, id: &str) -> String {
    format!("{address}/jobs/{id}")
}

/// `SUCCEEDED`, `FAILED`, `KILLED`, or `UNDEFINED` while it runs.
fn final_state(job: &JobReport) -> &'static str {
    match job.state {
        JobState::Running | JobState::Committing => "UNDEFINED",
        JobState::Succeeded => "SUCCEEDED",
        JobState::Failed => "FAILED",
        JobState::Killed => "KILLED",
    }
}

/// At most two decimals, none that are zero: `33.33%`, `50%`.
fn progress(job: &JobReport) -> String {
    let done = match (job.maps.total, job.reduces.total) {
        _ if job.state == JobState::Succeeded => 1.0,
        (_, 0) => job.map_progress,
        (0, _) => job.reduce_progress,
        _ => (job.map_progress + job.reduce_progress) / 2.0,
    };
    let text = format!("{:.2}", f64::from(done) * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `[a, b]`.
fn set<T: AsRef<str>>(words: &[T]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    format!("[{}]", words.join(", "))
}

fn list_text(address: &str, jobs: &[JobReport], states: &[State], types: &[String]) -> String {
    let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    let mut text = format!(
        "Total number of applications (application-types: {}, states: {} and tags: []):{}\n",
        set(types),
        set(&names),
        jobs.len()
    );
    let heads = ["Application-Id", "Application-Name", "Application-Type", "User", "Queue"];
    text.push_str(&line(heads, ["State", "Final-State", "Progress", "Tracking-URL"]));
    for job in jobs {
        let application = job.id.replacen("job_", "application_", 1);
        text.push_str(&line(
            [&application, &job.name, TYPE, &job.user, &job.queue],
            [
                State::of(job).name(),
                final_state(job),
                &progress(job),
                &tracking_url(address, &job.id),
            ],
        ));
    }
    text
}

fn line([id, name, of_type, user, queue]: [&str; 5], rest: [&str; 4]) -> String {
    let [state, final_state, progress, url] = rest;
    format!(
        "{id:>30}\t{name:>20}\t{of_type:>20}\t{user:>10}\t{queue:>10}\t{state:>18}\t{final_state:>18}\t{progress:>15}\t{url:>35}\n"
    )
}

fn status_text(address: &str, id: JobId, job: &JobReport) -> String {
    let mut text = "Application Report : \n".to_owned();
    let url = tracking_url(address, &job.id);
    for (label, value) in [
        ("Application-Id", Application(id).to_string()),
        ("Application-Name", job.name.clone()),
        ("Application-Type", TYPE.to_owned()),
        ("User", job.user.clone()),
        ("Queue", job.queue.clone()),
        ("Application Priority", number(job.priority).to_string()),
        ("Start-Time", job.submitted_ms.to_string()),
        ("Finish-Time", job.finished_ms.to_string()),
        ("Progress", progress(job)),
        ("State", State::of(job).name().to_owned()),
        ("Final-State", final_state(job).to_owned()),
        ("Tracking-URL", url),
        ("RPC Port", "-1".to_owned()),
        ("AM Host", "N/A".to_owned()),
        ("Aggregate Resource Allocation", "N/A".to_owned()),
        ("Aggregate Resource Preempted", "N/A".to_owned()),
        ("Log Aggregation Status", "DISABLED".to_owned()),
        ("Diagnostics", job.diagnostics.clone()),
        ("Unmanaged Application", "false".to_owned()),
        ("Application Node Label Expression", "<Not set>".to_owned()),
        ("AM container Node Label Expression", "<DEFAULT_PARTITION>".to_owned()),
    ] {
        text.push_str(&format!("\t{label} : {value}\n"));
    }
    text.push_str("\tTimeoutType : LIFETIME\tExpiryTime : UNLIMITED\tRemainingTime : -1seconds\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yarn::words::asked;
    use protocol::DfsPath;
    use protocol::jobs::{Counters, TaskCounts};

    fn parse(line: &str) -> Result<Request, String> {
        asked(super::parse, line)
    }

    fn job(state: JobState) -> JobReport {
        JobReport {
            id: "job_202611201830_0001".to_owned(),
            name: "word count".to_owned(),
            user: "ann".to_owned(),
            state,
            maps: TaskCounts { total: 3, pending: 2, completed: 1, ..TaskCounts::default() },
            reduces: TaskCounts::default(),
            map_progress: 1.0 / 3.0,
            reduce_progress: 0.0,
            submitted_ms: 5,
            finished_ms: 0,
            counters: Counters::default(),
            read_records_per_s: 0,
            read_bytes_per_s: 0,
            diagnostics: String::new(),
            output: DfsPath::root(),
            queue: "etl".to_owned(),
            priority: Priority::High,
            slot_count: 0,
            is_outline: false,
            rounds: None,
        }
    }

    #[test]
    fn what_is_asked() {
        let id = JobId { cluster_start: 202_611_201_830, number: 1 };
        let (app, name) = ("application_202611201830_0001", "job_202611201830_0001");
        let waiting = vec![State::Submitted, State::Accepted, State::Running];
        assert_eq!(parse("-list"), Ok(Request::List { states: waiting, types: Vec::new() }));
        assert_eq!(
            parse("-list -appStates killed,FINISHED -appTypes mapreduce"),
            Ok(Request::List {
                states: vec![State::Finished, State::Killed],
                types: vec![TYPE.to_owned()]
            })
        );
        let all = Request::List { states: State::ALL.to_vec(), types: Vec::new() };
        assert_eq!(parse("-list -appStates ALL"), Ok(all));
        assert_eq!(parse(&format!("-status {app}")), Ok(Request::Status(id)));
        assert_eq!(parse(&format!("-kill {app} {name}")), Ok(Request::Kill(vec![id, id])));
        assert_eq!(
            parse(&format!("-appId {app} -updatePriority 5")),
            Ok(Request::Priority(id, Priority::VeryHigh, "5".to_owned()))
        );
        for (line, expected) in [
            ("", ""),
            ("-status x", "Invalid ApplicationId: x"),
            ("-list -appStates gone", "state gone is invalid"),
            ("-list -appTags a", "-appTags is not supported"),
            ("-updatePriority 3", NEEDS_ID),
            ("-appId job_202611201830_0001 -updatePriority 9", "`9` is no priority"),
            ("-launch x", "-launch is not supported"),
            ("-help", "help"),
        ] {
            let text = parse(line).unwrap_err();
            assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        }
    }

    #[test]
    fn states_and_columns() {
        let waits = JobReport {
            maps: TaskCounts { total: 3, pending: 3, ..TaskCounts::default() },
            ..job(JobState::Running)
        };
        for (job, state, of_end, done) in [
            (&waits, "ACCEPTED", "UNDEFINED", "33.33%"),
            (&job(JobState::Running), "RUNNING", "UNDEFINED", "33.33%"),
            (&job(JobState::Committing), "RUNNING", "UNDEFINED", "33.33%"),
            (&job(JobState::Succeeded), "FINISHED", "SUCCEEDED", "100%"),
            (&job(JobState::Failed), "FINISHED", "FAILED", "33.33%"),
            (&job(JobState::Killed), "KILLED", "KILLED", "33.33%"),
        ] {
            let text =
                list_text("http://jt", std::slice::from_ref(job), &State::ALL, &[TYPE.to_owned()]);
            let fields: Vec<&str> =
                text.lines().nth(2).unwrap().split('\t').map(str::trim).collect();
            let id = "application_202611201830_0001";
            let expected = [
                id,
                "word count",
                TYPE,
                "ann",
                "etl",
                state,
                of_end,
                done,
                "http://jt/jobs/job_202611201830_0001",
            ];
            assert_eq!(fields, expected);
        }
        assert_eq!(
            list_text("http://jt", &[], &[State::Running], &[]).lines().next(),
            Some(
                "Total number of applications (application-types: [], states: [RUNNING] and tags: []):0"
            )
        );
        let id = JobId { cluster_start: 202_611_201_830, number: 1 };
        let text = status_text("http://jt", id, &job(JobState::Killed));
        assert!(text.contains("\tState : KILLED\n\tFinal-State : KILLED\n"), "{text}");
        assert!(text.contains("\tApplication Priority : 4\n"), "{text}");
    }
}
