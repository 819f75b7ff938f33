//! What a command line says and a job does not read, because something that it belongs to is missing: nobody is to find that out from the result.

use mr_model::Error;
use mr_model::runner::Graph;
use protocol::property::keys;

use super::options::Options;

/// Properties of jobs that only a cluster reads.
const OF_CLUSTERS: [&str; 18] = [
    keys::DEFAULT_FS.name(),
    keys::QUEUE.name(),
    keys::PRIORITY.name(),
    keys::MAP_ATTEMPTS.name(),
    keys::REDUCE_ATTEMPTS.name(),
    keys::TASK_TIMEOUT.name(),
    keys::SLOW_START.name(),
    keys::MAP_LIMIT.name(),
    keys::REDUCE_LIMIT.name(),
    keys::MAP_SPECULATIVE.name(),
    keys::REDUCE_SPECULATIVE.name(),
    keys::FAILURES_PER_WORKER.name(),
    keys::ACL_MODIFY.name(),
    keys::ACL_VIEW.name(),
    keys::SKIP_START.name(),
    keys::LOCALITY_WAIT.name(),
    keys::REPLICATION.name(),
    keys::BLOCK_SIZE.name(),
];

/// Warnings about options that no plan of the program reads.
pub(crate) fn of_place(options: &Options) -> Vec<String> {
    if options.local.is_none() {
        return Vec::new();
    }
    let given = options.given();
    let given = |name: &str| given.contains_key(name);
    let fields = [
        ("--namenode", options.namenode.is_some()),
        ("--jobtracker", options.jobtracker.is_some()),
        ("-fs", options.file_system.is_some()),
    ];
    let mut unread: Vec<String> = fields
        .into_iter()
        .filter(|(_, is_given)| *is_given)
        .map(|(name, _)| format!("option {name}"))
        .chain(OF_CLUSTERS.into_iter().filter(|name| given(name)).map(|n| format!("property {n}")))
        .map(|what| format!("{what} has no effect with --local: the job runs in this process"))
        .collect();
    let skip = keys::SKIP_MAX.name();
    if given(skip) {
        unread.push(format!(
            "--skip-bad (property {skip}) has no effect with --local: a bad record fails the job"
        ));
    }
    unread
}

/// Warnings about options that no job of a plan reads.
///
/// # Errors
/// A property that does not take its value.
pub(crate) fn of_plan(options: &Options, plan: &Graph) -> Result<Vec<String>, Error> {
    let (given, mut unread) = (options.given(), Vec::new());
    let mut compresses = false;
    for stage in &plan.stages {
        let of_job = options.of_job(stage.settings());
        compresses |= of_job.value(keys::OUTPUT_COMPRESS)?.unwrap_or(false);
    }
    for name in [keys::OUTPUT_CODEC.name(), keys::OUTPUT_COMPRESS_TYPE.name()] {
        if given.contains_key(name) && !compresses {
            let missing = keys::OUTPUT_COMPRESS.name();
            unread.push(format!("property {name} has no effect without {missing}=true"));
        }
    }
    let is_map_only = plan.stages.iter().all(|stage| stage.is_map_only());
    let wants_reduces = options.reducers.is_some() || given.contains_key(keys::REDUCES.name());
    if is_map_only && wants_reduces && options.reducers()?.is_some_and(|count| count > 0) {
        let property = keys::REDUCES.name();
        unread
            .push(format!("the number of reduces ({property}) has no effect: nothing is reduced"));
    }
    Ok(unread)
}

#[cfg(test)]
mod tests {
    use mr_model::job::Plan;
    use mr_model::runner::Planned;
    use mr_model::{Job, Sum, text, text_out};

    use super::*;
    use crate::run::Args;

    fn warnings(line: &str, reduces: bool) -> Vec<String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (_, options) = Args::parse(&words).unwrap();
        let job = Job::new("j").input(text(["in"])).map_fn::<String, u64, _>(|_, _| Ok(()));
        let plan: Plan = match reduces {
            true => job.reduce(Sum).output(text_out("out")).into(),
            false => job.output(text_out("out")).into(),
        };
        let of_plan = of_plan(&options, &Planned::from(plan).graph).unwrap();
        [of_place(&options), of_plan].concat()
    }

    #[test]
    fn what_is_given_and_not_read_is_named_with_what_is_missing() {
        for (line, reduces, part) in [
            ("--local --namenode http://h:1", true, "option --namenode has no effect with --local"),
            ("--local --jobtracker http://h:1", true, "option --jobtracker"),
            ("--local --skip-bad 3", true, "--skip-bad (property mapreduce.map.skip.maxrecords)"),
            ("--local -D dfs.replication=2", true, "property dfs.replication"),
            (
                "-D mapred.output.compression.codec=org.apache.hadoop.io.compress.GzipCodec",
                true,
                "without mapreduce.output.fileoutputformat.compress=true",
            ),
            ("--reducers 3", false, "the number of reduces (mapreduce.job.reduces)"),
        ] {
            let found = warnings(line, reduces);
            assert!(found.len() == 1 && found[0].contains(part), "{line}: {found:?}");
        }
        for (line, reduces) in [
            ("--namenode http://h:1 --skip-bad 3 -D dfs.replication=2", true),
            ("--local --reducers 3 -D io.sort.mb=64", true),
            ("--reducers 0", false),
            ("--default=mapreduce.job.reduces=3", false),
            ("--local --default dfs.replication=2 --default mapreduce.map.skip.maxrecords=1", true),
            (
                "--default mapred.output.compression.codec=org.apache.hadoop.io.compress.GzipCodec",
                true,
            ),
            (
                "-D mapreduce.output.fileoutputformat.compress=true \
                 -D mapred.output.compression.codec=org.apache.hadoop.io.compress.GzipCodec",
                true,
            ),
        ] {
            assert_eq!(warnings(line, reduces), [""; 0], "{line}");
        }
    }
}
