//! The environment of a script: the job's configuration and the task's context, under Hadoop's current and former names, with every
//! character outside `[0-9A-Za-z]` turned into `_`.

use mr_formats::sequence::SEED_PROPERTY;
use mr_model::Result;
use mr_model::runner::{DESCRIPTION_PROPERTY, TaskState};
use mr_model::task::Context;
use protocol::TaskKind;
use protocol::property::{self, Properties, keys};
use protocol::runner::SILENCE_PROPERTY;

/// Names and values for the environment of a task's script; the last of a name counts. `of_job` are those of the job beside its properties, `given` those of
/// the command line. Whatever is of the configuration is cut to `stream.jobconf.truncate.limit`; what a user gives a script by name is not.
pub(super) fn variables(
    context: &Context,
    of_job: &[(String, String)],
    given: &[(String, String)],
) -> Result<Vec<(String, String)>> {
    let mut variables = of_job.to_vec();
    let own = [DESCRIPTION_PROPERTY, crate::run::FILES_PROPERTY, SEED_PROPERTY, SILENCE_PROPERTY];
    for (name, value) in context.properties() {
        // An environment cannot hold a value with a zero byte.
        if !own.contains(&name) && !value.contains('\0') {
            let names = [name].into_iter().chain(property::former_names(name).iter().copied());
            variables.extend(names.map(|name| (variable_name(name), value.to_owned())));
        }
    }
    task_variables(context, &mut variables);
    let bytes_max = TaskState::of(context).value(keys::VARIABLE_BYTES_MAX)?;
    if let Some(most) = bytes_max.and_then(|bound| bound.0) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        for (_, value) in &mut variables {
            value.truncate(value.floor_char_boundary(most));
        }
    }
    given_variables(context, &mut variables)?;
    variables.extend_from_slice(given);
    Ok(variables)
}

/// Variables that properties ask for.
fn given_variables(context: &Context, variables: &mut Vec<(String, String)>) -> Result<()> {
    let given = given_in(TaskState::of(context).properties(), context.attempt().task.kind)?;
    variables.extend(given.into_iter().map(|(name, value)| {
        let value = substitute(&value, |name| std::env::var(name).unwrap_or_default());
        (name, value)
    }));
    Ok(())
}

/// These variables before those of the worker are put in; the last of a name counts.
fn given_in(properties: &Properties, kind: TaskKind) -> Result<Vec<(String, String)>> {
    let (of_kind, each) = match kind {
        TaskKind::Map => (keys::MAP_ENV, keys::MAP_ENV_EACH),
        TaskKind::Reduce => (keys::REDUCE_ENV, keys::REDUCE_ENV_EACH),
    };
    // As in Hadoop, the list of the kind replaces the one of all tasks.
    let list = match of_kind.get(properties)? {
        None => keys::CHILD_ENV.get(properties)?,
        some => some,
    };
    let mut given = list.map_or_else(Vec::new, |list| list.0);
    given.extend(each.get(properties)?);
    given.extend(keys::ADD_ENVIRONMENT.get(properties)?.into_iter().flat_map(|list| list.0));
    Ok(given)
}

/// Replaces `$NAME` and `${NAME}`.
fn substitute(text: &str, variable: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut parts = text.split('$');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = match part.strip_prefix('{').and_then(|part| part.split_once('}')) {
            Some(braced) => braced,
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                part.split_at(part.find(|c| !is_name(c)).unwrap_or(part.len()))
            }
        };
        match name {
            "" => out.push('$'),
            name => out.push_str(&variable(name)),
        }
        out.push_str(rest);
    }
    out
}

/// The task's description, under all names that Hadoop has used.
fn task_variables(context: &Context, variables: &mut Vec<(String, String)>) {
    let attempt = context.attempt();
    let task = attempt.task;
    let mut set = |names: &[&str], value: String| {
        variables.extend(names.iter().map(|name| ((*name).to_owned(), value.clone())));
    };
    set(&["mapreduce_job_id", "mapred_job_id"], task.job.to_string());
    set(&["mapreduce_task_id", "mapred_tip_id"], task.to_string());
    set(&["mapreduce_task_attempt_id", "mapred_task_id"], attempt.to_string());
    set(
        &["mapreduce_task_ismap", "mapreduce_task_is_map", "mapred_task_is_map"],
        (task.kind == TaskKind::Map).to_string(),
    );
    set(&["mapreduce_task_partition", "mapred_task_partition"], task.index.to_string());
    let directory = context.directory().to_string_lossy().into_owned();
    set(&["mapreduce_job_local_dir", "job_local_dir"], directory);
    if let Some(counts) = context.task_counts() {
        set(&["mapreduce_job_reduces", "mapred_reduce_tasks"], counts.reduces.to_string());
        set(&["mapreduce_job_maps", "mapred_map_tasks"], counts.maps.to_string());
    }
    if let Some(output) = context.output_directory() {
        set(&["mapreduce_task_output_dir", "mapred_work_output_dir"], output.to_owned());
    }
    if let Some(input) = context.input() {
        set(&["mapreduce_map_input_file", "map_input_file"], input.path.clone());
        set(&["mapreduce_map_input_start", "map_input_start"], input.start.to_string());
        set(&["mapreduce_map_input_length", "map_input_length"], input.length.to_string());
    }
    if let Some(user) = TaskState::of(context).user() {
        set(&["mapreduce_job_user_name", "user_name"], user.to_owned());
    }
}

fn variable_name(property: &str) -> String {
    property.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn variables_are_put_in() {
        let of = |name: &str| format!("<{name}>");
        for (text, expected) in
            [("$A:b", "<A>:b"), ("x${A_1}y$", "x<A_1>y$"), ("plain", "plain"), ("$A$B", "<A><B>")]
        {
            assert_eq!(substitute(text, of), expected, "{text}");
        }
    }

    #[test]
    fn a_variable_of_its_own_wins_over_the_list_of_its_kind() {
        let properties: Properties = [
            ("mapred.child.env", "A=1,B=1"),
            ("mapreduce.map.env", "B=2,C=2"),
            ("mapreduce.map.env.C", "3,3"),
            ("mapreduce.reduce.env.C", "4"),
            ("stream.addenvironment", "D=5 E=6"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let last = |kind| -> Vec<String> {
            let given: BTreeMap<_, _> = given_in(&properties, kind).unwrap().into_iter().collect();
            given.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        assert_eq!(last(TaskKind::Map), ["B=2", "C=3,3", "D=5", "E=6"]);
        assert_eq!(last(TaskKind::Reduce), ["A=1", "B=1", "C=4", "D=5", "E=6"]);
        let bad: Properties = [("mapreduce.map.env".to_owned(), "A=1,B".to_owned())].into();
        let error = given_in(&bad, TaskKind::Map).unwrap_err().to_string();
        assert!(error.contains("mapreduce.map.env: `B` is not NAME=VALUE"), "{error}");
    }

    #[test]
    fn names_keep_letters_and_digits() {
        assert_eq!(variable_name("mapreduce.job.reduces"), "mapreduce_job_reduces");
        assert_eq!(variable_name("my-own.k1"), "my_own_k1");
    }
}
