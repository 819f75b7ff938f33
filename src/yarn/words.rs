//! Options of the `yarn` commands: cutting a command line into options and their values, and those that are refused by name.

use std::collections::BTreeMap;

use crate::absent::Absent;
use crate::output::{EXIT_USAGE, report, report_text};

/// How `yarn top` is used.
pub(super) const TOP_USAGE: &str = "\
Usage: yarn top [-delay SECONDS] [--once]

  -delay SECONDS  seconds between two looks
  --once          print once and return
";

/// What a command line asks for.
pub(super) enum Asked<T> {
    Help,
    Do(T),
}

/// A wrong command line: what is wrong with it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong(pub(super) String);

impl Wrong {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Wrong(text.into())
    }
}

/// Options that ask for a command's usage.
const HELP: [&str; 2] = ["-help", "--help"];

/// What an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Takes {
    Nothing,
    One,
    /// Words up to the next option, also several with commas between them.
    List,
}

/// The options of a command line, with their values.
pub(super) type Options<'a> = BTreeMap<&'static str, Vec<&'a str>>;

const fn absent(name: &'static str, instead: &'static str) -> Absent {
    Absent { name, instead }
}

const NO_SERVICES: &str = "services that run for ever are not jobs; `mapred streaming` and programs of the job API are started by themselves";
const NO_MASTER: &str = "a job has no application master: the JobTracker runs it";
const ONE_LOG: &str =
    "an attempt has one log of standard output and error; without the option all of it is printed";

/// Options that are refused, each with the command that it belongs to.
#[rustfmt::skip]
const REFUSED: &[(&str, Absent)] = &[
    ("application", absent("-appTags", "jobs have no tags; their names are in the list")),
    ("application", absent("-changeQueue", "a job stays in its queue; `mapred job -set-priority ID PRIORITY` makes it more urgent")),
    ("application", absent("-movetoqueue", "a job stays in its queue; `mapred job -set-priority ID PRIORITY` makes it more urgent")),
    ("application", absent("-queue", "a job stays in its queue; `mapred job -set-priority ID PRIORITY` makes it more urgent")),
    ("application", absent("-clusterId", "there is one JobTracker; `-jt HOST:PORT` or `--jobtracker` names another")),
    ("application", absent("-updateLifetime", "a job runs until it ends; `mapreduce.task.timeout` bounds an attempt that makes no progress")),
    ("application", absent("-launch", NO_SERVICES)),
    ("application", absent("-start", NO_SERVICES)),
    ("application", absent("-stop", NO_SERVICES)),
    ("application", absent("-save", NO_SERVICES)),
    ("application", absent("-destroy", NO_SERVICES)),
    ("application", absent("-flex", NO_SERVICES)),
    ("application", absent("-component", NO_SERVICES)),
    ("application", absent("-components", NO_SERVICES)),
    ("application", absent("-instances", NO_SERVICES)),
    ("application", absent("-decommission", NO_SERVICES)),
    ("application", absent("-upgrade", NO_SERVICES)),
    ("application", absent("-initiate", NO_SERVICES)),
    ("application", absent("-finalize", NO_SERVICES)),
    ("application", absent("-autoFinalize", NO_SERVICES)),
    ("application", absent("-cancel", NO_SERVICES)),
    ("application", absent("-express", NO_SERVICES)),
    ("application", absent("-version", NO_SERVICES)),
    ("application", absent("-states", NO_SERVICES)),
    ("application", absent("-enableFastLaunch", NO_SERVICES)),
    ("application", absent("-shellCommand", NO_SERVICES)),
    ("applicationattempt", absent("-fail", "a job has one attempt; `mapred job -fail-task ATTEMPT` fails one of a task, `yarn application -kill ID` ends the job")),
    ("container", absent("-signal", "`mapred job -kill-task ATTEMPT` ends an attempt, `-fail-task` also counts it as a failure")),
    ("container", absent("-shell", "`mapred job replay ATTEMPT` runs an attempt again on this machine")),
    ("container", absent("-components", NO_SERVICES)),
    ("container", absent("-version", NO_SERVICES)),
    ("container", absent("-states", NO_SERVICES)),
    ("node", absent("-showDetails", "`yarn node -status NODE` shows the details of one")),
    ("logs", absent("-am", NO_MASTER)),
    ("logs", absent("-appAttemptId", "an application has one attempt; `-applicationId` is enough")),
    ("logs", absent("-client_max_retries", "the JobTracker fetches logs; it is asked again by giving the command again")),
    ("logs", absent("-client_retry_interval_ms", "the JobTracker fetches logs; it is asked again by giving the command again")),
    ("logs", absent("-clusterId", "there is one JobTracker; `-jt HOST:PORT` or `--jobtracker` names another")),
    ("logs", absent("-list_nodes", "`yarn container -list ID` shows the hosts of attempts")),
    ("logs", absent("-log_files", ONE_LOG)),
    ("logs", absent("-logFiles", ONE_LOG)),
    ("logs", absent("-log_files_pattern", ONE_LOG)),
    ("logs", absent("-nodeAddress", "an attempt names its worker; `-containerId` is enough")),
    ("logs", absent("-out", "send standard output to a file")),
    ("logs", absent("-show_application_log_info", "`yarn container -list ID` shows the attempts of a job")),
    ("logs", absent("-show_container_log_info", ONE_LOG)),
    ("logs", absent("-size", "`| head -c N` and `| tail -c N` cut the text")),
    ("logs", absent("-size_limit_mb", "the logs of a worker are bounded; all of them are printed")),
    ("queue", absent("-subClusterId", "there is one JobTracker; `-jt HOST:PORT` or `--jobtracker` names another")),
    ("top", absent("-cols", "the width is that of the terminal")),
    ("top", absent("-rows", "the height is that of the terminal")),
    ("top", absent("-queues", "all queues are shown; `mapred queue -info QUEUE -showJobs` shows one")),
    ("top", absent("-types", "there is one type, MAPREDUCE")),
    ("top", absent("-users", "jobs of all users are shown")),
];

/// Cuts a command line apart. An option counts by its name without regard to case, as in `-appStates` and `-appstates`; `-help` is one of every command.
pub(super) fn options<'a>(
    command: &str,
    known: &[(&'static str, Takes)],
    words: &'a [String],
) -> Result<Asked<Options<'a>>, Wrong> {
    let is_help = |word: &String| HELP.iter().any(|name| name.eq_ignore_ascii_case(word));
    if words.iter().any(is_help) {
        return Ok(Asked::Help);
    }
    let mut found = Options::new();
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        let (name, takes) = named(command, known, word)?;
        let mut values = Vec::new();
        let mut next = || words.next_if(|word| !word.starts_with('-'));
        match takes {
            Takes::Nothing => {}
            Takes::One => values.extend(next().filter(|value| !value.is_empty())),
            Takes::List => {
                while let Some(value) = next() {
                    values.extend(value.split(',').map(str::trim).filter(|part| !part.is_empty()));
                }
            }
        }
        if takes != Takes::Nothing && values.is_empty() {
            return Err(Wrong::new(format!("Missing argument for option {name}")));
        }
        if found.insert(name, values).is_some() {
            return Err(Wrong::new(format!("option {name} is given twice")));
        }
    }
    Ok(Asked::Do(found))
}

fn named(
    command: &str,
    known: &[(&'static str, Takes)],
    word: &str,
) -> Result<(&'static str, Takes), Wrong> {
    let is = |name: &str| name.eq_ignore_ascii_case(word);
    if let Some(found) = known.iter().find(|(name, _)| is(name)) {
        return Ok(*found);
    }
    let refused = REFUSED.iter().find(|(of, absent)| *of == command && is(absent.name));
    Err(match refused {
        Some((_, Absent { name, instead })) => {
            Wrong::new(format!("{command} {name} is not supported: {instead}"))
        }
        None if word.starts_with('-') => Wrong::new(format!("Unrecognized option: {word}")),
        None => Wrong::new(""),
    })
}

/// The words of `hanno job top` for those of `yarn top`.
pub(super) fn top(words: &[String]) -> Result<Vec<String>, Wrong> {
    let known = [("-delay", Takes::One), ("--once", Takes::Nothing), ("--interval", Takes::One)];
    let Asked::Do(options) = options("top", &known, words)? else {
        return Ok(vec!["--help".to_owned()]);
    };
    let mut ours = Vec::new();
    for (name, values) in options {
        match name {
            "-delay" | "--interval" => {
                ours.push("--interval".to_owned());
                ours.extend(values.iter().map(|value| (*value).to_owned()));
            }
            name => ours.push(name.to_owned()),
        }
    }
    Ok(ours)
}

/// Says what is wrong with a command line, and how it is used if nothing names the mistake.
pub(super) fn usage(text: &str, usage_text: &str) -> u8 {
    match text.is_empty() {
        true => report_text!("Invalid Command Usage :\n{usage_text}"),
        false => report!("yarn: {text}"),
    }
    EXIT_USAGE
}

/// What `parse` makes of a line: the request, `help`, or what is wrong.
#[cfg(test)]
pub(super) fn asked<T>(
    parse: impl FnOnce(&[String]) -> Result<Asked<T>, Wrong>,
    line: &str,
) -> Result<T, String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    match parse(&words) {
        Ok(Asked::Do(request)) => Ok(request),
        Ok(Asked::Help) => Err("help".to_owned()),
        Err(Wrong(text)) => Err(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn options_and_their_values() {
        let known =
            [("-list", Takes::Nothing), ("-appStates", Takes::List), ("-appId", Takes::One)];
        // What is one value is not taken apart, so that nothing of it is left out.
        let words = split("-list -appstates RUNNING,KILLED FAILED -appId x,y");
        let Ok(Asked::Do(found)) = options("application", &known, &words) else { panic!() };
        assert_eq!(found["-appStates"], ["RUNNING", "KILLED", "FAILED"]);
        assert_eq!(found["-appId"], ["x,y"]);
        for (line, expected) in [
            ("-list -list", "option -list is given twice"),
            ("-appStates", "Missing argument for option -appStates"),
            ("-appTags a", "application -appTags is not supported: jobs have no tags"),
            ("-other", "Unrecognized option: -other"),
            ("word", ""),
        ] {
            let Err(Wrong(text)) = options("application", &known, &split(line)) else { panic!() };
            assert!(text.starts_with(expected) && text.is_empty() == expected.is_empty(), "{text}");
        }
    }

    #[test]
    fn top_is_that_of_jobs() {
        assert_eq!(top(&split("-delay 5 --once")).unwrap(), ["--once", "--interval", "5"]);
        assert!(top(&split("-rows 5")).is_err());
    }

    #[test]
    fn what_is_refused_is_named_once() {
        for (index, (command, absent)) in REFUSED.iter().enumerate() {
            let same = |(of, other): &&(&str, Absent)| of == command && other.name == absent.name;
            assert_eq!(
                REFUSED.iter().filter(same).count(),
                1,
                "{index}: {command} {}",
                absent.name
            );
        }
    }
}
