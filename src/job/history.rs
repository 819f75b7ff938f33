//! `hanno job -history`: the history of a job, from the JobTracker or from a file, as Hadoop's command prints it or as JSON.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use client::job::{JobClient, JobError, counters_text};
use jiff::tz::TimeZone;
use protocol::JobId;
use protocol::history::{
    AttemptEnded, End, HistoryEvent, JobEnded, JobInited, JobSubmitted, LineCheck, VERSION,
    VERSION_UNCHECKED, VERSION_WITHOUT_END,
};
use protocol::jobs::Counters;

use super::exit::unknown;
use super::wrong::{Wrong, too_many};
use crate::connect::Overrides;
use crate::output::{EXIT_OK, local_zone, only_json, print_json_lines, report, say, second_time};

/// Permissions of `-outfile`: a history names what only some may see.
const FILE_MODE: u32 = 0o600;
/// HTTP status for a missing page.
const NOT_FOUND: u16 = 404;
/// Attempts named in the analysis.
const SLOWEST_SHOWN: usize = 10;

/// Prints the history of a job, given by its id or by a file.
pub(super) fn run(wanted: &Wanted, overrides: &Overrides) -> Result<u8> {
    let what = &wanted.what;
    if wanted.json {
        only_json();
    }
    let text = match what.parse::<JobId>() {
        Ok(id) => match of_job(&super::job_client(&overrides.config()?)?, id)? {
            Some(text) => text,
            None => return Ok(unknown(what)),
        },
        Err(_) => of_file(what)?,
    };
    let text = match wanted.json {
        true => text,
        false => human(&checked(&text, what)?.events, wanted.all, local_zone()),
    };
    match &wanted.file {
        Some(file) => {
            let text = format!("{}\n", text.trim_end());
            sys::fs::write_output(file.as_ref(), FILE_MODE, text.as_bytes())
                .with_context(|| format!("cannot write {file}"))?;
        }
        None if wanted.json => print_json_lines(text.trim_end())?,
        None => say!("{}", text.trim_end()),
    }
    Ok(EXIT_OK)
}

/// What to print of which history, and where to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Wanted {
    /// A job's id, or a file.
    pub(super) what: String,
    /// Every attempt, not only those that failed and the slowest.
    pub(super) all: bool,
    /// The events themselves.
    pub(super) json: bool,
    /// The file that is written instead of standard output.
    pub(super) file: Option<String>,
}

impl Wanted {
    /// Reads `[all] ID|FILE [-outfile FILE] [-format human|json]`; options may stand in any order, each once.
    pub(super) fn parse(command: &str, words: &[&str]) -> Result<Self, Wrong> {
        let missing = |option: &str, what| Wrong::Missing { option: option.to_owned(), what };
        let (all, words) = match words {
            ["all", rest @ ..] if !rest.is_empty() => (true, rest),
            words => (false, words),
        };
        let (what, mut rest) = match words {
            [] | ["", ..] => return Err(missing(command, "ID or FILE")),
            [what, rest @ ..] => (*what, rest),
        };
        let mut wanted = Wanted { what: what.to_owned(), all, ..Wanted::default() };
        let mut format = None;
        while let [option, more @ ..] = rest {
            let value = || more.first().copied().filter(|value| !value.is_empty());
            let was_given = match *option {
                "-outfile" => {
                    let file = value().ok_or_else(|| missing(option, "FILE"))?;
                    wanted.file.replace(file.to_owned()).is_some()
                }
                "-format" => {
                    let value = value().ok_or_else(|| missing(option, "human or json"))?;
                    format.replace(value).is_some()
                }
                word => return Err(too_many(command, word)),
            };
            if was_given {
                return Err(too_many(command, option));
            }
            rest = more.get(1..).unwrap_or_default();
        }
        wanted.json = match format {
            None | Some("human") => false,
            Some("json") => true,
            Some(word) => {
                let (option, word) = ("-format".to_owned(), word.to_owned());
                return Err(Wrong::Word { option, word, expected: "human or json" });
            }
        };
        Ok(wanted)
    }
}

/// The text of a file that holds the whole history, or says that it may not.
fn of_file(file: &str) -> Result<String> {
    let text =
        sys::fs::read_input(Path::new(file)).with_context(|| format!("cannot read {file}"))?;
    if checked(&text, file)?.end == End::Open {
        report!("job: {file} has no end: it was written while the job ran, or it is cut");
    }
    Ok(text)
}

fn checked(text: &str, what: &str) -> Result<Parsed> {
    parse(text).with_context(|| format!("cannot read the history {what}"))
}

fn of_job(client: &JobClient, id: JobId) -> Result<Option<String>> {
    match client.history(id) {
        Ok(text) => Ok(Some(text)),
        Err(error) if is_unknown(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_unknown(error: &JobError) -> bool {
    error.status() == Some(NOT_FOUND)
}

fn damaged(number: u64) -> String {
    format!("line {number} is damaged: its checksum does not fit")
}

/// A history, line by line good.
#[derive(PartialEq, Debug)]
struct Parsed {
    /// Without those whose type this program does not know.
    events: Vec<HistoryEvent>,
    end: End,
}

fn parse(text: &str) -> Result<Parsed> {
    let mut events = Vec::new();
    let mut check = LineCheck::default();
    for (number, line) in (1u64..).zip(text.lines()) {
        let is_good = check.is_good(line.as_bytes());
        let value: serde_json::Value = serde_json::from_str(line)
            .with_context(|| format!("line {number} is no event of a job's history"))?;
        if number > 1 && !is_good {
            bail!(damaged(number));
        }
        let event = match serde_json::from_value(value.clone()) {
            Ok(event) => event,
            Err(_) if number > 1 && value.get("type").is_some_and(|kind| !is_known(kind)) => {
                continue;
            }
            Err(error) => {
                return Err(error).with_context(|| format!("line {number} cannot be understood"));
            }
        };
        match &event {
            HistoryEvent::HistoryVersion { version }
                if ![VERSION, VERSION_WITHOUT_END, VERSION_UNCHECKED].contains(version) =>
            {
                bail!("this history is of version {version}; this program reads version {VERSION}");
            }
            _ if !is_good => bail!(damaged(number)),
            HistoryEvent::HistoryVersion { .. } | HistoryEvent::HistoryEnd(_) => {}
            _ if number == 1 => bail!("this is no history of a job: its first line has no version"),
            _ => events.push(event),
        }
    }
    if events.is_empty() {
        bail!("this is no history of a job: it has no events");
    }
    let end = check.end();
    if end == End::Open && events.last().is_some_and(ends_a_job) {
        bail!(
            "this history is cut: the job is over, and the line that says that all is there is missing"
        );
    }
    Ok(Parsed { events, end })
}

fn ends_a_job(event: &HistoryEvent) -> bool {
    use HistoryEvent::{JobFailed, JobFinished, JobKilled};
    matches!(event, JobFinished(_) | JobFailed(_) | JobKilled(_))
}

fn is_known(kind: &serde_json::Value) -> bool {
    const KNOWN: [&str; 17] = [
        "HISTORY_VERSION",
        "JOB_SUBMITTED",
        "JOB_INITED",
        "TASK_STARTED",
        "MAP_ATTEMPT_STARTED",
        "REDUCE_ATTEMPT_STARTED",
        "MAP_ATTEMPT_FINISHED",
        "REDUCE_ATTEMPT_FINISHED",
        "MAP_ATTEMPT_FAILED",
        "REDUCE_ATTEMPT_FAILED",
        "MAP_ATTEMPT_KILLED",
        "REDUCE_ATTEMPT_KILLED",
        "TASK_FINISHED",
        "JOB_FINISHED",
        "JOB_FAILED",
        "JOB_KILLED",
        "HISTORY_END",
    ];
    kind.as_str().is_none_or(|kind| KNOWN.contains(&kind))
}

/// The summary of a history.
#[derive(Default)]
struct Summary {
    submitted: Option<JobSubmitted>,
    inited: Option<JobInited>,
    ended: Option<JobEnded>,
    kinds: [Kind; 2],
    /// Attempts, as they ended.
    attempts: Vec<AttemptEnded>,
}

/// Attempts of maps, or of reduces.
#[derive(Default)]
struct Kind {
    started: BTreeMap<String, u64>,
    succeeded: u32,
    failed: u32,
    killed: u32,
    first: Option<u64>,
    last: u64,
    /// Time and id of the attempts that count.
    times: Vec<(u64, String)>,
}

impl Summary {
    fn add(&mut self, event: HistoryEvent) {
        use HistoryEvent as E;
        match event {
            E::JobSubmitted(event) => self.submitted = Some(event),
            E::JobInited(event) => self.inited = Some(event),
            E::JobFinished(event) | E::JobFailed(event) | E::JobKilled(event) => {
                self.ended = Some(event);
            }
            E::MapAttemptStarted(event) => self.kinds[0].start(event.attempt_id, event.start_time),
            E::ReduceAttemptStarted(event) => {
                self.kinds[1].start(event.attempt_id, event.start_time);
            }
            E::MapAttemptFinished(event) => self.succeed(0, event),
            E::ReduceAttemptFinished(event) => self.succeed(1, event),
            E::MapAttemptFailed(event) => self.end_badly(0, true, event),
            E::ReduceAttemptFailed(event) => self.end_badly(1, true, event),
            E::MapAttemptKilled(event) => self.end_badly(0, false, event),
            E::ReduceAttemptKilled(event) => self.end_badly(1, false, event),
            E::HistoryVersion { .. }
            | E::HistoryEnd(_)
            | E::TaskStarted(_)
            | E::TaskFinished(_) => {}
        }
    }

    fn succeed(&mut self, kind: usize, event: AttemptEnded) {
        self.kinds[kind].succeed(&event);
        self.attempts.push(event);
    }

    fn end_badly(&mut self, kind: usize, failed: bool, event: AttemptEnded) {
        let kind = &mut self.kinds[kind];
        kind.last = kind.last.max(event.finish_time);
        kind.failed += u32::from(failed);
        kind.killed += u32::from(!failed);
        self.attempts.push(event);
    }
}

impl Kind {
    fn start(&mut self, attempt: String, time: u64) {
        self.first = Some(self.first.map_or(time, |first| first.min(time)));
        self.started.insert(attempt, time);
    }

    fn succeed(&mut self, event: &AttemptEnded) {
        self.succeeded += 1;
        self.last = self.last.max(event.finish_time);
        let start = self.started.get(&event.attempt_id).copied().unwrap_or(event.finish_time);
        self.times.push((event.finish_time.saturating_sub(start), event.attempt_id.clone()));
    }
}

fn human(events: &[HistoryEvent], all: bool, zone: &TimeZone) -> String {
    let mut summary = Summary::default();
    events.iter().cloned().for_each(|event| summary.add(event));
    let mut text = head(&summary, zone);
    text.push_str(&table(&summary, zone));
    if let Some(ended) = &summary.ended {
        text.push_str(&format!("\n{}", counters_text(&Counters(ended.total_counters.clone()))));
    }
    let statuses = ["FAILED", "KILLED"].into_iter().chain(all.then_some("SUCCEEDED"));
    for status in statuses {
        let of_status = summary.attempts.iter().filter(|attempt| attempt.status == status);
        let attempts: Vec<&AttemptEnded> = of_status.collect();
        if attempts.is_empty() {
            continue;
        }
        text.push_str(&format!("\n{status} attempts\nAttemptId\tFinishTime\tHost\tError\n"));
        for attempt in attempts {
            let AttemptEnded { attempt_id, finish_time, hostname, error, .. } = attempt;
            let (time, error) =
                (second_time(*finish_time, zone), error.lines().next().unwrap_or(""));
            text.push_str(&format!("{attempt_id}\t{time}\t{hostname}\t{error}\n"));
        }
    }
    text.push_str(&analysis(&summary, if all { usize::MAX } else { SLOWEST_SHOWN }));
    text
}

fn head(summary: &Summary, zone: &TimeZone) -> String {
    let mut text = String::new();
    if let Some(job) = &summary.submitted {
        text.push_str(&format!(
            "\nHadoop job: {}\n=====================================\nUser: {}\nJobName: {}\nQueue: {}\n\
             Priority: {}\nOutput: {}\nSubmitted At: {}\n",
            job.jobid,
            job.user_name,
            job.job_name,
            job.job_queue_name,
            job.priority,
            job.output,
            second_time(job.submit_time, zone),
        ));
        if let Some(inited) = &summary.inited {
            let waited = inited.launch_time.saturating_sub(job.submit_time);
            let time = second_time(inited.launch_time, zone);
            text.push_str(&format!("Launched At: {time} ({})\n", seconds(waited)));
        }
    }
    match (&summary.ended, &summary.inited) {
        (Some(ended), Some(inited)) => {
            let ran = ended.finish_time.saturating_sub(inited.launch_time);
            let time = second_time(ended.finish_time, zone);
            text.push_str(&format!(
                "Finished At: {time} ({})\nStatus: {}\n",
                seconds(ran),
                ended.job_status
            ));
            if !ended.diagnostics.is_empty() {
                text.push_str(&format!("Diagnostics: {}\n", ended.diagnostics));
            }
        }
        _ => text.push_str("Status: RUNNING\n"),
    }
    text
}

fn table(summary: &Summary, zone: &TimeZone) -> String {
    let mut text =
        "\nTask Summary\n============================\nKind\tTotal\tSuccessful\tFailed\tKilled\tStartTime\tFinishTime\n"
            .to_owned();
    for (name, kind) in ["Map", "Reduce"].into_iter().zip(&summary.kinds) {
        let (start, finish) = match kind.first {
            Some(first) => (second_time(first, zone), second_time(kind.last, zone)),
            None => (String::new(), String::new()),
        };
        text.push_str(&format!(
            "{name}\t{}\t{}\t{}\t{}\t{start}\t{finish}\n",
            kind.started.len(),
            kind.succeeded,
            kind.failed,
            kind.killed,
        ));
    }
    text
}

fn analysis(summary: &Summary, slowest: usize) -> String {
    let mut text = String::new();
    for (name, kind) in ["map", "reduce"].into_iter().zip(&summary.kinds) {
        let mut times = kind.times.clone();
        times.sort();
        let (Some(best), Some(_)) = (times.first(), times.last()) else { continue };
        let total: u64 = times.iter().map(|(time, _)| time).sum();
        let mean = total / times.len() as u64;
        text.push_str(&format!(
            "\nAnalysis of {name} attempts\nTime taken by the best: {} {}\nAverage time: {}\nWorst:\n",
            best.1,
            seconds(best.0),
            seconds(mean),
        ));
        for (time, attempt) in times.iter().rev().take(slowest) {
            text.push_str(&format!("{attempt} {}\n", seconds(*time)));
        }
    }
    text
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}sec", ms / 1000, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("../../jobtracker/testdata/history-v3.jsonl");
    const WITHOUT_END: &str = include_str!("../../jobtracker/testdata/history-v2.jsonl");
    const UNCHECKED: &str = include_str!("../../jobtracker/testdata/history-v1.jsonl");

    fn sealed(line: &str) -> String {
        let mut line = line.as_bytes().to_vec();
        protocol::history::seal(&mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn histories_of_earlier_versions_are_read_too() {
        let Parsed { events, end } = parse(SAMPLE).unwrap();
        assert_eq!(end, End::Marked);
        for earlier in [UNCHECKED, WITHOUT_END] {
            assert_eq!(parse(earlier).unwrap(), Parsed { events: events.clone(), end: End::Event });
        }
    }

    #[test]
    fn a_history_reads_as_hadoops() {
        let text = human(&parse(SAMPLE).unwrap().events, false, &TimeZone::UTC);
        assert!(!text.contains("SUCCEEDED attempts"), "{text}");
        let all = human(&parse(SAMPLE).unwrap().events, true, &TimeZone::UTC);
        let winner = "SUCCEEDED attempts\nAttemptId\tFinishTime\tHost\tError\nattempt_202611201830_0001_m_000000_1\t";
        assert!(all.contains(winner), "{all}");
        for part in [
            "Hadoop job: job_202611201830_0001\n",
            "Launched At: 1970-01-01 00:00:00 (0.005sec)\n",
            "Finished At: 1970-01-01 00:00:00 (0.040sec)\nStatus: SUCCEEDED\n",
            "\nMap\t3\t1\t1\t1\t",
            "\nReduce\t0\t0\t0\t0\t\t\n",
            "\tg\n\t\tn=7\n",
            "FAILED attempts\n",
            "attempt_202611201830_0001_m_000000_0\t1970-01-01 00:00:00\thost\ta \"bad\"\n",
            "Time taken by the best: attempt_202611201830_0001_m_000000_1 0.020sec\n",
        ] {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
    }

    #[test]
    fn all_of_hadoops_options_are_read_or_refused() {
        let wanted = |all, json, file: Option<&str>| {
            Some(Wanted { what: "j".to_owned(), all, json, file: file.map(str::to_owned) })
        };
        for (words, expected) in [
            (&["j"][..], wanted(false, false, None)),
            (&["all", "j", "-format", "json"], wanted(true, true, None)),
            (&["j", "-outfile", "f", "-format", "human"], wanted(false, false, Some("f"))),
            (&["all", "j", "-format", "json", "-outfile", "f"], wanted(true, true, Some("f"))),
            (&["j", "-outfile"], None),
            (&["j", "-format", "xml"], None),
            (&["j", "-outfile", "a", "-outfile", "b"], None),
            (&["j", "k"], None),
            (&[], None),
        ] {
            assert_eq!(Wanted::parse("-history", words).ok(), expected, "{words:?}");
        }
        assert_eq!(Wanted::parse("-history", &["all"]).unwrap().what, "all", "a file of this name");
    }

    #[test]
    fn what_is_no_history_is_refused_and_what_is_new_is_skipped() {
        let first = SAMPLE.lines().next().unwrap();
        let second = SAMPLE.lines().nth(1).unwrap();
        let dreamt = sealed("{\"type\":\"JOB_DREAMT\",\"event\":{}}");
        let newer = format!("{first}\n{dreamt}\n{second}\n");
        let parsed = parse(&newer).unwrap();
        assert_eq!((parsed.events.len(), parsed.end), (1, End::Open));
        for (text, reason) in [
            ("", "no events"),
            ("hello\n", "line 1 is no event"),
            (second, "has no version"),
            (&sealed("{\"type\":\"HISTORY_VERSION\",\"event\":{\"version\":4}}"), "version 4"),
            (&first.replace("version\":3", "version\":1"), "line 1 is damaged"),
            (&format!("{first}\n{}", second.replacen("a job", "b job", 1)), "line 2 is damaged"),
            (&format!("{first}\n{}", &second[..second.len() / 2]), "line 2"),
            (SAMPLE.trim_end().rsplit_once('\n').unwrap().0, "is cut"),
            (
                &format!("{first}\n{}", sealed("{\"type\":\"JOB_INITED\",\"event\":{}}")),
                "line 2 cannot",
            ),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
    }
}
