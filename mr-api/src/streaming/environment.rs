//! What a script finds in its environment: the job's configuration and the task's surroundings, under Hadoop's names with every
//! character outside `[0-9A-Za-z]` turned into `_`, the present and the former names.

use protocol::TaskKind;

use crate::context::Context;
use crate::options::ALIASES;
use crate::runner::DESCRIPTION_PROPERTY;

/// Names and values for the environment of a task's script.
pub(super) fn variables(context: &Context) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let own = [DESCRIPTION_PROPERTY, crate::cache::FILES_PROPERTY];
    for (name, value) in context.properties() {
        // A value with a zero byte cannot be in an environment.
        if !own.contains(&name) && !value.contains('\0') {
            variables.push((variable_name(name), value.to_owned()));
            let formers = ALIASES.iter().filter(|(_, present)| *present == name);
            let formers = formers.map(|(former, _)| (variable_name(former), value.to_owned()));
            variables.extend(formers);
        }
    }
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
    variables
}

fn variable_name(property: &str) -> String {
    property.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_letters_and_digits() {
        assert_eq!(variable_name("mapreduce.job.reduces"), "mapreduce_job_reduces");
        assert_eq!(variable_name("my-own.k1"), "my_own_k1");
    }
}
