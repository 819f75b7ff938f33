//! `hadoop distcp` and `mapred distcp`: the command around the crate of that name.

use std::ffi::OsString;

use ::distcp::{Error, Outcome, Site, USAGE};
use anyhow::Result;
use mr_api::built_in::{self, Settings};

use crate::connect::{Overrides, describe, file_system_config};
use crate::generic::{Given, generic_with};
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, report, say};
use crate::reference::Outline;

/// The word with which a worker reaches this command.
const NAME: &str = "distcp";
/// Properties of the job that the command line may set.
const PROPERTIES: &[&str] = &[
    "dfs.blocksize",
    "dfs.replication",
    "fs.permissions.umask-mode",
    "mapreduce.job.name",
    "mapreduce.job.queuename",
    "mapreduce.job.priority",
    "mapreduce.job.running.map.limit",
    "mapreduce.map.maxattempts",
    "mapreduce.task.timeout",
];

/// The options, for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_options(USAGE)
}

/// Runs the command line after `distcp` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    if built_in::is_task() {
        let words: Vec<String> =
            arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        return match ::distcp::run_tasks(&words) {
            Ok(()) => EXIT_OK,
            Err(error) => failed(&error),
        };
    }
    let Given { words, overrides, properties } =
        match generic_with(arguments, overrides, PROPERTIES) {
            Ok(given) => given,
            Err(text) => {
                report!("distcp: {text}");
                return EXIT_USAGE;
            }
        };
    if matches!(words.first().map(String::as_str), Some("-help" | "--help" | "-h")) {
        say!("{}", USAGE.trim_end());
        return EXIT_OK;
    }
    let copied = site(&overrides, &properties)
        .map(|site| ::distcp::run(&words, &site, &mut |warning| report!("distcp: {warning}")));
    match copied {
        Ok(Ok(Outcome { warnings, .. })) => {
            warnings.iter().for_each(|warning| report!("distcp: {warning}"));
            EXIT_OK
        }
        Ok(Err(error)) => failed(&error),
        Err(error) => {
            report!("distcp: {}", describe(error.as_ref()));
            EXIT_FAILED
        }
    }
}

fn failed(error: &Error) -> u8 {
    report!("distcp: {}", describe(error));
    error.exit_code()
}

/// The cluster, if one is configured.
fn site(overrides: &Overrides, properties: &[(String, String)]) -> Result<Site> {
    let config = overrides.config()?;
    let has_cluster = config.namenode.is_some();
    let config = if has_cluster { file_system_config(&config)? } else { config };
    let settings = Settings {
        namenode: config.namenode.clone(),
        jobtracker: config.jobtracker.clone(),
        properties: properties.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        ..Settings::default()
    };
    let tell: fn(&str) = |text| report!("distcp: {text}");
    Ok(Site { config, has_cluster, settings, prefix: vec![NAME.to_owned()], tell: Some(tell) })
}
