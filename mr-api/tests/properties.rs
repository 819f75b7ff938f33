//! Properties that an author gives a job.

use mr_api::testing::JobDriver;
use mr_api::{Job, LocalRunner, Plan, Result, previous, text, text_out};

/// Two jobs: the first reads records between semicolons, the second lines. Each marks what it reads with its own property.
fn marks(input: String, output: String) -> Result<Plan> {
    let first = Job::new("first")
        .property("textinputformat.record.delimiter", ";")?
        .property("marks.mark", "one")?
        .input(text([input]))
        .map_fn::<String, String, _>(|line, out| {
            let mark = out.context().property("marks.mark").unwrap_or("none").to_owned();
            out.emit(line.to_str_lossy().as_ref(), mark)
        })
        .output(mr_api::intermediate());
    let second = Job::new("second")
        .property("mapred.textoutputformat.separator", "|")?
        .input(previous())
        .map_fn::<String, String, _>(|line, out| {
            let mark = out.context().property("marks.mark").unwrap_or("none").to_owned();
            out.emit(line.to_str_lossy().as_ref(), mark)
        })
        .output(text_out(output));
    Ok(Plan::from(first).then(second))
}

#[test]
fn each_job_has_its_own_and_the_command_line_wins() {
    let driver = || JobDriver::new().file("in", "a;b c");
    let run = driver().run(|path| marks(path("in"), path("out"))).unwrap();
    assert_eq!(run.text("part"), "a\tone|none\nb c\tone|none\n");
    let runner = LocalRunner::new().property("marks.mark", "given");
    let run = driver().runner(runner).run(|path| marks(path("in"), path("out"))).unwrap();
    assert_eq!(run.text("part"), "a\tgiven|given\nb c\tgiven|given\n");
    let lines = LocalRunner::new().property("textinputformat.record.delimiter", " ");
    let run = driver().runner(lines).run(|path| marks(path("in"), path("out"))).unwrap();
    // The command line is for all jobs: the second reads its input as one record, too.
    assert_eq!(run.text("part"), "a;b\tone\nc\tone\n|none\n");
}

#[test]
fn the_number_of_reduces_and_of_maps_and_the_name_follow() {
    let job = |name: &str, value: &str, path: &dyn Fn(&str) -> String| -> Result<Plan> {
        let job = Job::new("count").property(name, value)?.input(text([path("in")]));
        let job = job.map_fn::<u64, u64, _>(|line, out| out.emit(line.bytes.len() as u64, 1u64));
        Ok(job.reduce(mr_api::Sum).output(text_out(path("out"))).into())
    };
    let files = |name, value| {
        let run = JobDriver::new().file("in", "a\nbb\nccc\n").run(|path| job(name, value, path));
        run.map(|run| run.files.into_keys().filter(|file| file.starts_with("part")).count())
    };
    assert_eq!(files("mapreduce.job.reduces", "3").unwrap(), 3);
    assert_eq!(files("mapred.reduce.tasks", "5").unwrap(), 5);
    let error = files("mapreduce.job.max.map", "0").unwrap_err().to_string();
    assert!(error.contains("may have 0"), "{error}");
}

#[test]
fn what_has_no_effect_is_refused_by_name() {
    for (name, value, part) in [
        ("mapreduce.task.timeout", "soon", "mapreduce.task.timeout: `soon`"),
        ("mapreduce.job.reducers", "3", "did you mean mapreduce.job.reduces?"),
        ("mapreduce.map.env", "A=b", "for streaming jobs"),
        ("fs.defaultFS", "hdfs://nn", "give it with -D"),
        ("fs.default.name", "hdfs://nn", "give it with -D"),
    ] {
        let error = Job::new("strict").property(name, value).err().expect(name).to_string();
        assert!(error.contains("the job `strict`") && error.contains(part), "{error}");
    }
}
