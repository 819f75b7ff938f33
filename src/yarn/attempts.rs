//! `yarn applicationattempt` and `yarn container`: the one attempt at a job, and the attempts at its tasks.

use anyhow::Result;
use client::job::JobClient;
use protocol::address::web_url_of;
use protocol::jobs::{AttemptReport, JobReport, WorkerReport};
use protocol::{AttemptId, ErrorKind, JobId};

use super::applications::{State, tracking_url, unknown};
use super::ids;
use super::ids::ApplicationAttempt;
use super::words::{Asked, Takes, Wrong, options};
use crate::output::{EXIT_OK, EXIT_USAGE, local_zone, offset_date, say};

pub(super) const APPLICATION_USAGE: &str = "\
Usage: yarn applicationattempt COMMAND

  -list ID        the attempt at a job; a job has one
  -status ATTEMPT where it stands

ID is application_… or job_…, ATTEMPT appattempt_…
";

pub(super) const CONTAINER_USAGE: &str = "\
Usage: yarn container COMMAND

  -list ID           attempts at the tasks of a job
  -status CONTAINER  one of them

ID is appattempt_…, application_… or job_…; CONTAINER is an attempt: attempt_…
";

/// What does not exist here.
const NONE: &str = "N/A";

/// Of `applicationattempt`.
pub(super) enum Request {
    List(JobId),
    Status(JobId),
}

/// Of `container`.
pub(super) enum Containers {
    List(JobId),
    Status(AttemptId),
}

pub(super) fn parse(words: &[String]) -> Result<Asked<Request>, Wrong> {
    Ok(match list_or_status("applicationattempt", words)? {
        Some(("-list", id)) => Asked::Do(Request::List(ids::job(id)?)),
        Some((_, id)) => Asked::Do(Request::Status(ids::job_of_attempt(id)?)),
        None => Asked::Help,
    })
}

pub(super) fn parse_container(words: &[String]) -> Result<Asked<Containers>, Wrong> {
    Ok(match list_or_status("container", words)? {
        Some(("-list", id)) => Asked::Do(Containers::List(ids::job_of_attempt(id)?)),
        Some((_, id)) => Asked::Do(Containers::Status(ids::container(id)?)),
        None => Asked::Help,
    })
}

/// The option and its value; nothing if help is asked for.
fn list_or_status<'a>(
    command: &str,
    words: &'a [String],
) -> Result<Option<(&'static str, &'a str)>, Wrong> {
    let known = [("-list", Takes::One), ("-status", Takes::One)];
    let Asked::Do(given) = options(command, &known, words)? else { return Ok(None) };
    let mut given = given.into_iter();
    match (given.next(), given.next()) {
        (Some((name, values)), None) => Ok(values.first().map(|value| (name, *value))),
        _ => Err(Wrong::new("")),
    }
}

pub(super) fn of_application(client: &JobClient, request: Request) -> Result<u8> {
    let (Request::List(id) | Request::Status(id)) = request;
    let job = match client.status(id) {
        Ok(job) => job,
        Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => return Ok(unknown(id)),
        Err(error) => return Err(error.into()),
    };
    match request {
        Request::List(_) => say!("{}", list_text(client.address(), id, &job).trim_end()),
        Request::Status(_) => say!("{}", status_text(client.address(), id, &job).trim_end()),
    }
    Ok(EXIT_OK)
}

/// The state of the one attempt: as the job's, but one that failed is FAILED.
fn state(job: &JobReport) -> &'static str {
    match job.state {
        protocol::jobs::JobState::Failed => State::Failed.name(),
        _ => State::of(job).name(),
    }
}

fn list_text(address: &str, id: JobId, job: &JobReport) -> String {
    let line = |id: &str, state: &str, container: &str, url: &str| {
        format!("{id:>30}\t{state:>20}\t{container:>35}\t{url:>35}\n")
    };
    let head = line("ApplicationAttempt-Id", "State", "AM-Container-Id", "Tracking-URL");
    let attempt = ApplicationAttempt(id).to_string();
    let row = line(&attempt, state(job), NONE, &tracking_url(address, &job.id));
    format!("Total number of application attempts :1\n{head}{row}")
}

fn status_text(address: &str, id: JobId, job: &JobReport) -> String {
    let mut text = "Application Attempt Report : \n".to_owned();
    for (label, value) in [
        ("ApplicationAttempt-Id", ApplicationAttempt(id).to_string()),
        ("State", state(job).to_owned()),
        ("AMContainer", NONE.to_owned()),
        ("Tracking-URL", tracking_url(address, &job.id)),
        ("RPC Port", "-1".to_owned()),
        ("AM Host", NONE.to_owned()),
        ("Diagnostics", job.diagnostics.clone()),
    ] {
        text.push_str(&format!("\t{label} : {value}\n"));
    }
    text
}

pub(super) fn containers(client: &JobClient, request: Containers) -> Result<u8> {
    let id = match request {
        Containers::List(id) => id,
        Containers::Status(attempt) => attempt.task.job,
    };
    let tasks = match client.tasks(id) {
        Ok(tasks) => tasks,
        Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => return Ok(unknown(id)),
        Err(error) => return Err(error.into()),
    };
    let workers = client.workers()?;
    let shown: Vec<Container> = tasks
        .iter()
        .flat_map(|task| &task.attempts)
        .map(|attempt| Container::of(client.address(), &workers, attempt))
        .collect();
    match request {
        Containers::List(_) => {
            say!("{}", containers_text(&shown).trim_end());
            Ok(EXIT_OK)
        }
        Containers::Status(attempt) => {
            let attempt = attempt.to_string();
            match shown.iter().find(|container| container.id == attempt) {
                Some(container) => {
                    say!("{}", container.report().trim_end());
                    Ok(EXIT_OK)
                }
                None => {
                    say!("Container with id '{attempt}' doesn't exist in RM or Timeline Server.");
                    Ok(EXIT_USAGE)
                }
            }
        }
    }
}

/// An attempt as a container.
struct Container {
    id: String,
    started: String,
    finished: String,
    state: &'static str,
    host: String,
    http_address: String,
    log_url: String,
    diagnostics: String,
}

impl Container {
    fn of(address: &str, workers: &[WorkerReport], attempt: &AttemptReport) -> Self {
        // Of several workers on one machine an attempt does not tell which was its own.
        let mut there = workers.iter().filter(|worker| worker.host == attempt.host);
        let only = there.next().filter(|_| there.next().is_none());
        let http_address = only.map_or(NONE.to_owned(), |worker| web_url_of(&worker.http_address));
        Container {
            id: attempt.id.clone(),
            started: date(attempt.started_ms),
            finished: date(attempt.finished_ms),
            state: if attempt.finished_ms == 0 { "RUNNING" } else { "COMPLETE" },
            host: attempt.host.clone(),
            http_address,
            log_url: format!("{address}{}", attempt.log_url),
            diagnostics: attempt.diagnostics.clone(),
        }
    }

    fn report(&self) -> String {
        let mut text = "Container Report : \n".to_owned();
        for (label, value) in [
            ("Container-Id", self.id.as_str()),
            ("Start-Time", &self.started),
            ("Finish-Time", &self.finished),
            ("State", self.state),
            ("Execution-Type", "GUARANTEED"),
            ("LOG-URL", &self.log_url),
            ("Host", &self.host),
            ("NodeHttpAddress", &self.http_address),
            ("ExposedPorts", ""),
            ("Diagnostics", &self.diagnostics),
        ] {
            text.push_str(&format!("\t{label} : {value}\n"));
        }
        text
    }
}

fn date(ms: u64) -> String {
    if ms == 0 { NONE.to_owned() } else { offset_date(ms, local_zone()) }
}

fn containers_text(containers: &[Container]) -> String {
    let line = |[id, start, finish, state, host, address, log]: [&str; 7]| {
        format!(
            "{id:>30}\t{start:>20}\t{finish:>20}\t{state:>20}\t{host:>20}\t{address:>20}\t{log:>35}\n"
        )
    };
    let heads = ["Container-Id", "Start Time", "Finish Time", "State", "Host", "Node Http Address"];
    let [id, start, finish, state, host, address] = heads;
    let mut text = format!("Total number of containers :{}\n", containers.len());
    text.push_str(&line([id, start, finish, state, host, address, "LOG-URL"]));
    for c in containers {
        text.push_str(&line([
            &c.id,
            &c.started,
            &c.finished,
            c.state,
            &c.host,
            &c.http_address,
            &c.log_url,
        ]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_option_with_one_id() {
        let split = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let job = "application_202611201830_0001";
        assert!(matches!(parse(&split(&format!("-list {job}"))), Ok(Asked::Do(Request::List(_)))));
        assert!(matches!(
            parse_container(&split("-status attempt_202611201830_0001_m_000005_0")),
            Ok(Asked::Do(Containers::Status(_)))
        ));
        assert!(matches!(parse(&split("-help")), Ok(Asked::Help)));
        for line in ["-list", "", "-list x", &format!("-list {job} -status {job}"), "-fail x"] {
            assert!(parse(&split(line)).is_err(), "{line}");
        }
    }

    #[test]
    fn containers_are_attempts() {
        let worker = |host: &str, port: u16| WorkerReport {
            host: host.to_owned(),
            http_address: format!("{host}:{port}"),
            ..WorkerReport::default()
        };
        let attempt = AttemptReport {
            id: "attempt_202611201830_0001_m_000000_0".to_owned(),
            state: "RUNNING".to_owned(),
            host: "b".to_owned(),
            log_url: "/log".to_owned(),
            started_ms: 1_767_609_005_000,
            finished_ms: 0,
            diagnostics: String::new(),
            progress: 0.5,
            phase: String::new(),
            status: String::new(),
        };
        let one = Container::of("http://jt", &[worker("a", 1), worker("b", 2)], &attempt);
        let texts = (one.http_address.as_str(), one.finished.as_str(), one.state);
        assert_eq!(texts, ("https://b:2", NONE, "RUNNING"));
        let two = Container::of("http://jt", &[worker("b", 1), worker("b", 2)], &attempt);
        assert_eq!(two.http_address, NONE);
        let text = containers_text(&[one]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Total number of containers :1");
        let fields: Vec<&str> = lines[2].split('\t').map(str::trim).collect();
        assert_eq!((fields.len(), fields[6]), (7, "http://jt/log"));
    }
}
