//! What runs as mapper, combiner or reducer, from the text of its option.

use std::sync::Arc;

use mr_model::Error;
use protocol::property::{Properties, is_class, keys};

use super::super::aggregate::AGGREGATE;
use super::super::command;
use super::super::process::Script;

/// The identity of Hadoop's former and its present interface.
const IDENTITY_MAPPERS: [&str; 2] =
    ["org.apache.hadoop.mapred.lib.IdentityMapper", "org.apache.hadoop.mapreduce.Mapper"];
const IDENTITY_REDUCERS: [&str; 2] =
    ["org.apache.hadoop.mapred.lib.IdentityReducer", "org.apache.hadoop.mapreduce.Reducer"];
const AGGREGATE_PACKAGES: [&str; 2] =
    ["org.apache.hadoop.mapred.lib.aggregate", "org.apache.hadoop.mapreduce.lib.aggregate"];

/// What runs as mapper, combiner or reducer.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Passes records on.
    Identity,
    /// Hadoop's aggregate library.
    Aggregate {
        /// A `UniqValueCount` counts no further; `None`: to the limit of the library.
        unique_max: Option<u32>,
    },
    Script(Arc<Script>),
}

/// What scripts learn about their job from their environment, besides its properties.
pub(super) fn job_variables(name: &str, inputs: &[String], output: &str) -> Vec<(String, String)> {
    [
        (["mapreduce_job_name", "mapred_job_name"], name.to_owned()),
        (["mapreduce_input_fileinputformat_inputdir", "mapred_input_dir"], inputs.join(",")),
        (["mapreduce_output_fileoutputformat_outputdir", "mapred_output_dir"], output.to_owned()),
    ]
    .into_iter()
    .flat_map(|(names, value)| names.map(|name| (name.to_owned(), value.clone())))
    .collect()
}

/// What a command is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Mapper,
    Combiner,
    Reducer,
}

impl Role {
    /// The option that names the command.
    fn option(self) -> &'static str {
        match self {
            Role::Mapper => "-mapper",
            Role::Combiner => "-combiner",
            Role::Reducer => "-reducer",
        }
    }
}

/// What the commands of a job share.
pub(super) struct Scripts<'a> {
    pub(super) job_variables: Vec<(String, String)>,
    pub(super) variables: Vec<(String, String)>,
    /// Names of the files shipped with the job.
    pub(super) sent: Vec<String>,
    pub(super) properties: &'a Properties,
}

impl Scripts<'_> {
    /// What an option names; the identity if it is not given.
    pub(super) fn work(&self, role: Role, text: Option<String>) -> Result<Work, Error> {
        let Some(text) = text else { return Ok(Work::Identity) };
        let (own, other) = match role {
            Role::Mapper => (&IDENTITY_MAPPERS, &IDENTITY_REDUCERS),
            Role::Combiner | Role::Reducer => (&IDENTITY_REDUCERS, &IDENTITY_MAPPERS),
        };
        let not_for = |what: &str| {
            let option = role.option();
            Err(Error::usage(format!("{option} `{text}`: {what}")))
        };
        let of_library = |last| text.contains('.') && is_class(&text, &AGGREGATE_PACKAGES, last);
        if text == AGGREGATE
            || of_library("ValueAggregatorReducer")
            || of_library("ValueAggregatorCombiner")
        {
            if role == Role::Mapper {
                return not_for("the aggregate library reduces; a mapper prints what it takes");
            }
            let most = keys::UNIQUE_VALUES_MAX.get(self.properties)?.map(|most| most.0);
            return Ok(Work::Aggregate { unique_max: most.filter(|most| *most < u32::MAX) });
        }
        if own.contains(&text.trim()) {
            return Ok(Work::Identity);
        }
        if other.contains(&text.trim()) {
            return not_for(&format!("the identity is {} here", own[0]));
        }
        let words = command::split(&text);
        let program = words.first().ok_or_else(|| Error::usage("an empty command"))?;
        let is_sent = self.sent.contains(program);
        if !is_sent && is_java_class(&text) {
            return Err(Error::usage(format!(
                "`{text}` looks like a Java class: only commands run here (of classes, the identity, `aggregate` and the partitioners of `-help`)"
            )));
        }
        let relative = program.strip_prefix("./");
        if let Some(name) = relative.filter(|name| !name.contains('/'))
            && !self.sent.iter().any(|sent| sent == name)
        {
            return Err(Error::usage(format!(
                "`{program}` would not be on the workers: `-file {name}` sends it along"
            )));
        }
        Ok(Work::Script(Arc::new(Script {
            words,
            job_variables: self.job_variables.clone(),
            variables: self.variables.clone(),
            reporter_prefix: keys::REPORTER_PREFIX
                .get(self.properties)?
                .unwrap_or_else(|| "reporter:".to_owned()),
            exit_code_matters: keys::EXIT_CODE_MATTERS.get(self.properties)?.unwrap_or(true),
        })))
    }
}

/// `org.example.Mapper`, `com.example.Job$Map`: names with dots, the last of which begins with a capital.
fn is_java_class(text: &str) -> bool {
    let is_name = |part: &str| {
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        part.starts_with(is_first)
            && part.chars().all(|c| is_first(c) || c.is_ascii_digit() || c == '$')
    };
    let parts: Vec<&str> = text.split('.').collect();
    let is_capital = |part: &&str| part.starts_with(|c: char| c.is_ascii_uppercase());
    parts.len() > 2
        && parts.iter().all(|part| is_name(part))
        && parts.last().is_some_and(is_capital)
}
