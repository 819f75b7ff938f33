//! Drivers for the unit tests of job authors: one mapper, one reducer, or a whole job, on given input, without files of their own.
//!
//! Each runs the real engine: encodings, partitioner, sort, grouping and output are those of a cluster.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use mr_formats::sequence::SEED_PROPERTY;
use mr_formats::{Source, SplitRange};
use mr_model::Result;
use mr_model::datum::{Datum, Key, Put};
use mr_model::job::Plan;
use mr_model::map::{Emit, Mapper, Records, Sink};
use mr_model::reduce::{Groups, Reducer};
use mr_model::runner::{
    LocalFiles, OutputOptions, PARTITION_SEED, RecordCursor, Scratch, TaskState, reduce_options,
    until_enough,
};
use mr_model::task::{Context, Output, TaskInput};
use protocol::jobs::Counters;
use protocol::property::Properties;
use protocol::{AttemptId, JobId, TaskId, TaskKind};
use shuffle::{Codec, MapOutputOptions, MapOutputWriter, ReduceInput, SegmentSource};

use crate::run::LocalRunner;

fn attempt(kind: TaskKind) -> AttemptId {
    let job = JobId { cluster_start: 0, number: 1 };
    AttemptId { task: TaskId { job, kind, index: 0 }, number: 0 }
}

/// Runs a mapper on the bytes of one file.
///
/// ```
/// use mr_api::testing::MapDriver;
/// use mr_api::{Lines, map_fn};
///
/// let words = map_fn::<Lines, String, u64, _>(|line, out| {
///     out.counter("Words", "lines").increment();
///     line.to_str_lossy().split_whitespace().try_for_each(|word| out.emit(word, 1u64))
/// });
/// let run = MapDriver::new(words, Lines).input("b a\n").run()?;
/// assert_eq!(run.pairs, [("b".to_owned(), 1), ("a".to_owned(), 1)]);
/// assert_eq!(run.counters.value("Words", "lines"), 1);
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub struct MapDriver<M: Mapper> {
    mapper: M,
    format: M::In,
    input: Vec<u8>,
    properties: Properties,
    side_files: Vec<(String, Vec<u8>)>,
}

/// The result of a mapper.
#[derive(Debug)]
pub struct MapRun<K, V> {
    /// The pairs it emitted, in order.
    pub pairs: Vec<(K, V)>,
    /// Its counters.
    pub counters: Counters,
}

impl<M: Mapper> MapDriver<M> {
    /// Makes a driver for `mapper`, which reads `format`.
    pub fn new(mapper: M, format: M::In) -> Self {
        let (input, properties, side_files) = Default::default();
        MapDriver { mapper, format, input, properties, side_files }
    }

    /// Sets the bytes of the split.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Sets a job property.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Adds a side file.
    pub fn side_file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.side_files.push((name.to_owned(), bytes.into()));
        self
    }

    /// Runs `setup`, the loop over the records, and `cleanup`.
    ///
    /// # Errors
    /// The mapper's.
    pub fn run(self) -> Result<MapRun<M::Key, M::Value>> {
        let scratch = Scratch::new("driver")?;
        let context = Context::new(attempt(TaskKind::Map), self.properties);
        let mut places = BTreeMap::new();
        for (name, bytes) in self.side_files {
            let place = scratch.path().join(&name);
            std::fs::write(&place, bytes)?;
            places.insert(name, place);
        }
        TaskState::of(&context).set_directory(scratch.path().to_owned(), places);
        let split = SplitRange { start: 0, end: self.input.len() as u64 };
        TaskState::of(&context).set_input(TaskInput {
            path: "input".to_owned(),
            start: 0,
            length: split.end,
            number: 0,
        });
        let mut emit = Emit::new(context.clone(), Collected::<M::Key, M::Value>::default());
        let mut mapper = self.mapper;
        mapper.setup(&context)?;
        let cells = [Cell::new(0), Cell::new(0)];
        let life = TaskState::of(&context).life();
        let cursor = RecordCursor::new([&cells[0], &cells[1]], &[], |_| (), life);
        let mut source = Bytes(&self.input);
        let part = cursor.in_part(0, u64::MAX);
        let records = Records::new(&self.format, (split, &mut source), part, 0);
        let ran = until_enough(mapper.run(records, &mut emit));
        let cleaned = mapper.cleanup(&mut emit);
        ran.and(cleaned)?;
        Ok(MapRun { pairs: emit.into_sink().pairs, counters: TaskState::of(&context).counters() })
    }
}

/// A file in memory.
struct Bytes<'a>(&'a [u8]);

impl Source for Bytes<'_> {
    fn slice(&mut self, offset: u64) -> std::io::Result<&[u8]> {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        Ok(&self.0[offset..])
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }
}

/// Keeps emitted pairs, decoded.
struct Collected<K, V> {
    pairs: Vec<(K, V)>,
}

impl<K, V> Default for Collected<K, V> {
    fn default() -> Self {
        Collected { pairs: Vec::new() }
    }
}

impl<K: Key, V: Datum> Sink for Collected<K, V> {
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.pairs.push((K::own(K::read(key)?), V::own(V::read(value)?)));
        Ok(())
    }
}

/// Runs a reducer on pairs, sorted and grouped as in a job.
///
/// ```
/// use mr_api::testing::ReduceDriver;
/// use mr_api::reduce_fn;
///
/// let sum = reduce_fn::<String, u64, _>(|word, values, out| {
///     let mut sum = 0;
///     while let Some(value) = values.next_value()? {
///         sum += value;
///     }
///     out.write(word, sum)
/// });
/// let run = ReduceDriver::new(sum).pair("b", 1u64).pair("a", 5u64).pair("b", 2u64).run()?;
/// assert_eq!(run.text("part"), "a\t5\nb\t3\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub struct ReduceDriver<R: Reducer> {
    reducer: R,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    group_prefix: Option<shuffle::GroupPrefix>,
    properties: Properties,
    types: PhantomData<fn() -> R>,
}

/// The result of a reducer or a job.
#[derive(Debug)]
pub struct OutputRun {
    /// Its files, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The counters of each job.
    pub counters: Vec<Counters>,
}

impl OutputRun {
    /// The text of all files that begin with `base`, `part` for the main output, in order.
    pub fn text(&self, base: &str) -> String {
        let files = self.files.iter().filter(|(name, _)| {
            name.strip_prefix(base)
                .is_some_and(|rest| rest.starts_with("-r-") || rest.starts_with("-m-"))
        });
        files.map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect()
    }

    fn of(directory: &std::path::Path, counters: Vec<Counters>) -> Result<Self> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                files.insert(name, std::fs::read(entry.path())?);
            }
        }
        Ok(OutputRun { files, counters })
    }
}

impl<R: Reducer> ReduceDriver<R> {
    /// Makes a driver for `reducer`.
    pub fn new(reducer: R) -> Self {
        let (pairs, properties) = Default::default();
        ReduceDriver { reducer, pairs, group_prefix: None, properties, types: PhantomData }
    }

    /// Groups as [`Job::group_by_first`](crate::Job::group_by_first) does.
    pub fn group_by_first(mut self) -> Self
    where
        R::Key: mr_model::map::FirstElement,
    {
        self.group_prefix = Some(mr_model::runner::first_element_bytes::<R::Key>);
        self
    }

    /// Adds a pair.
    pub fn pair(mut self, key: impl Put<R::Key>, value: impl Put<R::Value>) -> Self {
        let mut pair = (Vec::new(), Vec::new());
        key.put(&mut pair.0);
        value.put(&mut pair.1);
        self.pairs.push(pair);
        self
    }

    /// Sets a job property.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Sorts the pairs and runs `setup`, the loop over the groups, and `cleanup`.
    ///
    /// # Errors
    /// The reducer's.
    pub fn run(self) -> Result<OutputRun> {
        let scratch = Scratch::new("driver")?;
        let mut writer = MapOutputWriter::new(MapOutputOptions {
            partitions: 1,
            dir: scratch.path().to_owned(),
            name: "pairs".to_owned(),
            memory_bytes_max: DRIVER_MEMORY_BYTES,
            merge_factor: crate::run::MERGE_FACTOR_DEFAULT,
            codec: Codec::None,
            partition_seed: PARTITION_SEED,
            sync: false,
        })?;
        for (key, value) in &self.pairs {
            writer.emit(0, key, value)?;
        }
        let sorted = writer.finish()?;
        let source =
            SegmentSource::Path { path: sorted.data, offset: 0, stored: sorted.segments[0].stored };
        let merge_factor = crate::run::MERGE_FACTOR_DEFAULT;
        let mut options =
            reduce_options(scratch.path().to_owned(), DRIVER_MEMORY_BYTES, merge_factor);
        options.group_prefix = self.group_prefix;
        let context = Context::new(attempt(TaskKind::Reduce), self.properties);
        TaskState::of(&context).set_directory(scratch.path().to_owned(), BTreeMap::new());
        let files = scratch.path().join("output");
        std::fs::create_dir(&files)?;
        let mut output = Output::new(
            Box::new(LocalFiles(files.clone())),
            OutputOptions::default(),
            context.clone(),
        )?;
        let begun = Default::default();
        let input = ReduceInput::new(vec![source], options)?;
        let mut groups = Groups::new(input, self.pairs.len() as u64, &begun, context.clone());
        let mut reducer = self.reducer;
        reducer.setup(&context)?;
        let ran = reducer.run(&mut groups, &mut output);
        let cleaned = reducer.cleanup(&mut output);
        ran.and(cleaned)?;
        output.close()?;
        OutputRun::of(&files, vec![TaskState::of(&context).counters()])
    }
}

/// Runs a whole plan on files with given content, in a directory of its own.
///
/// ```
/// use mr_api::testing::JobDriver;
/// use mr_api::{Job, Sum, text, text_out};
///
/// let run = JobDriver::new().file("in/a", "x y\n").file("in/b", "y\n").run(|path| {
///     let job = Job::new("count")
///         .input(text([path("in")]))
///         .map_fn::<Vec<u8>, u64, _>(|line, out| line.words().try_for_each(|word| out.emit(word, 1u64)))
///         .combine(Sum)
///         .reduce(Sum)
///         .reducers(1)
///         .output(text_out(path("out")));
///     Ok(job.into())
/// })?;
/// assert_eq!(run.text("part"), "x\t1\ny\t2\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
#[derive(Debug, Default)]
pub struct JobDriver {
    files: Vec<(String, Vec<u8>)>,
    runner: LocalRunner,
}

impl JobDriver {
    /// A driver with the default [`LocalRunner`].
    pub fn new() -> Self {
        JobDriver::default()
    }

    /// Adds an input file; `name` can include directories.
    pub fn file(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.files.push((name.to_owned(), bytes.into()));
        self
    }

    /// Uses another runner: with little memory, properties, side files.
    pub fn runner(mut self, runner: LocalRunner) -> Self {
        self.runner = runner;
        self
    }

    /// Runs the plan that `build` makes. `build` can turn names into full paths. The plan's output is `out`.
    ///
    /// # Errors
    /// The plan's.
    pub fn run(
        &self,
        build: impl FnOnce(&dyn Fn(&str) -> String) -> Result<Plan>,
    ) -> Result<OutputRun> {
        let scratch = Scratch::new("driver")?;
        for (name, bytes) in &self.files {
            let place = scratch.path().join(name);
            std::fs::create_dir_all(place.parent().unwrap_or(scratch.path()))?;
            std::fs::write(place, bytes)?;
        }
        let plan = build(&|name| scratch.path().join(name).display().to_string())?;
        let counters = self.runner.run(plan)?;
        OutputRun::of(&scratch.path().join("out"), counters)
    }

    /// Panics unless the job's output has the same bytes however its input is split and however little memory it has. Calls `build` for
    /// each run.
    ///
    /// # Errors
    /// The plan's.
    pub fn assert_deterministic(
        &self,
        build: impl Fn(&dyn Fn(&str) -> String) -> Result<Plan>,
    ) -> Result<()> {
        // What is of chance is the same in all runs.
        let runner = self.runner.clone().property(SEED_PROPERTY, "compared");
        let driver = JobDriver { files: self.files.clone(), runner };
        let plain = driver.run(&build)?.files;
        let one = driver.runner.clone().threads(1);
        for runner in [one.clone(), one.clone().split_bytes(SMALL_SPLIT_BYTES), one.tiny_memory()] {
            let driver = JobDriver { files: self.files.clone(), runner };
            let again = driver.run(&build)?.files;
            let differs =
                plain.keys().chain(again.keys()).find(|name| again.get(*name) != plain.get(*name));
            if let Some(name) = differs {
                panic!("{name} depends on how the job runs: {:?}", driver.runner);
            }
        }
        Ok(())
    }
}

/// Memory of a driver's sort: tests have few pairs.
const DRIVER_MEMORY_BYTES: usize = 16 << 20;
/// Split size of the runs that check that splits do not matter.
const SMALL_SPLIT_BYTES: u64 = 64;

#[cfg(test)]
mod tests {
    use mr_formats::KeyValueLines;
    use mr_model::datum::Desc;

    use super::*;
    use crate::{Lines, map_fn, reduce_fn, text, text_out};

    #[test]
    fn mappers_see_properties_and_side_files() {
        let map = map_fn::<Lines, String, String, _>(|line, out| {
            let side = std::fs::read_to_string(out.context().side_file("names")?)?;
            let mark = out.context().property("mark").unwrap_or("none").to_owned();
            out.emit(line.to_str_lossy(), format!("{side}{mark}"))
        });
        let run =
            MapDriver::new(map, Lines).input("x").side_file("names", "s").property("mark", "!");
        assert_eq!(run.run().unwrap().pairs, [("x".to_owned(), "s!".to_owned())]);
        let fails = map_fn::<Lines, String, String, _>(|_, _| Err("bad line".into()));
        assert_eq!(
            MapDriver::new(fails, Lines).input("x").run().unwrap_err().to_string(),
            "bad line"
        );
        let pairs = map_fn::<KeyValueLines, Vec<u8>, u64, _>(|(key, value), out| {
            out.emit(key, value.len() as u64)
        });
        let run = MapDriver::new(pairs, KeyValueLines { separator: b'=' }).input("a=bcd\n");
        assert_eq!(run.run().unwrap().pairs, [(b"a".to_vec(), 3)]);
    }

    #[test]
    fn reducers_see_groups_in_their_order() {
        let first = reduce_fn::<(String, Desc<i32>), u64, _>(|(name, _), values, out| {
            let value = values.next_value()?.ok_or("a group has a value")?;
            let Desc(order) = values.current_key()?.1;
            out.write(&name, (order, value))?;
            out.write_to("seen", name, ())
        });
        let driver = ReduceDriver::new(first).group_by_first();
        let run = driver
            .pair(("a", Desc(1)), 10u64)
            .pair(("b", Desc(5)), 50u64)
            .pair(("a", Desc(3)), 30u64)
            .run()
            .unwrap();
        assert_eq!(run.text("part"), "a\t3\t30\nb\t5\t50\n");
        assert_eq!(run.text("seen"), "a\nb\n");
    }

    /// Whatever takes long between two of them is the job's own code.
    #[test]
    fn records_pairs_values_and_lines_show_life() {
        fn shown(context: &Context, signs: &mut u64, what: &str) -> Result<()> {
            let before = std::mem::replace(signs, TaskState::of(context).life_signs());
            if *signs == before { Err(format!("{what} showed no life").into()) } else { Ok(()) }
        }
        let last = std::sync::Arc::new(std::sync::Mutex::new(0));
        let run = JobDriver::new().file("in", "a\nb\nc\n").run(|path| {
            let job = crate::Job::new("slow")
                .input(text([path("in")]))
                .map_fn::<String, u64, _>(move |_, out| {
                    let mut signs = last.lock().unwrap();
                    shown(out.context(), &mut signs, "a record")?;
                    for _ in 0..2 {
                        out.emit("one", 1u64)?;
                        shown(out.context(), &mut signs, "a pair")?;
                    }
                    Ok(())
                })
                .reduce(reduce_fn::<String, u64, _>(|key, values, out| {
                    let mut signs = TaskState::of(out.context()).life_signs();
                    while let Some(value) = values.next_value()? {
                        shown(out.context(), &mut signs, "a value")?;
                        out.write(key, value)?;
                        shown(out.context(), &mut signs, "a line")?;
                        out.write_to("named", key, value)?;
                        shown(out.context(), &mut signs, "a line of a named output")?;
                    }
                    Ok(())
                }))
                .output(text_out(path("out")));
            Ok(job.into())
        });
        assert_eq!(run.unwrap().text("part").lines().count(), 6);
    }

    /// A SequenceFile that holds another would be read by the marks of both.
    #[test]
    fn no_two_runs_have_the_same_sync_marks() {
        let build = |path: &dyn Fn(&str) -> String| -> Result<Plan> {
            let job = crate::Job::new("sequence")
                .input(text([path("in")]))
                .map_fn::<String, u64, _>(|line, out| out.emit(line.to_str_lossy(), 1u64))
                .reduce(reduce_fn::<String, u64, _>(|key, _, out| out.append(key, 1i64)))
                .reducers(1)
                .output(crate::job::sequence_out::<String, i64>(path("out")));
            Ok(job.into())
        };
        let driver = JobDriver::new().file("in", "a\nb\n");
        let [first, second] = [0, 1].map(|_| driver.run(build).unwrap().files);
        let name = "part-r-00000";
        assert_eq!(first[name].len(), second[name].len());
        assert_ne!(first[name], second[name]);
        driver.assert_deterministic(build).unwrap();
    }

    #[test]
    fn each_byte_of_a_compressed_file_is_counted_once() {
        let lines = (0..200_000u64).map(|i| format!("{}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let stored = mr_formats::codec::FileCodec::Gzip
            .compress(lines.collect::<String>().as_bytes())
            .unwrap();
        let length = stored.len() as u64;
        assert!(length > 1 << 20, "{length}");
        let run = JobDriver::new().file("in.gz", stored).run(|path| {
            let job = crate::Job::new("count")
                .input(text([path("in.gz")]))
                .map_fn::<Vec<u8>, u64, _>(|_, out| out.emit("lines", 1u64))
                .combine(crate::Sum)
                .reduce(crate::Sum)
                .reducers(1)
                .output(text_out(path("out")));
            Ok(job.into())
        });
        let run = run.unwrap();
        assert_eq!(run.text("part"), "lines\t200000\n");
        assert_eq!(run.counters[0].value(mr_model::runner::INPUT_COUNTERS, "BYTES_READ"), length);
    }

    #[test]
    fn jobs_that_depend_on_how_they_run_are_caught() {
        let input = (0..50).map(|i| format!("{}\n", i % 7)).collect::<String>();
        let driver = JobDriver::new().file("in", input);
        let job = |honest: bool| {
            move |path: &dyn Fn(&str) -> String| -> Result<Plan> {
                let map = map_fn::<Lines, Vec<u8>, u64, _>(move |line, out| {
                    let start = out.context().input().map_or(0, |input| input.start);
                    out.emit(line.bytes, if honest { 1 } else { start })
                });
                Ok(crate::Job::new("count")
                    .input(text([path("in")]))
                    .map(map)
                    .reduce(crate::Sum)
                    .reducers(2)
                    .output(text_out(path("out")))
                    .into())
            }
        };
        driver.assert_deterministic(job(true)).unwrap();
        // An additional file is a difference too: here one named after the offset of each split but the first.
        let more = |path: &dyn Fn(&str) -> String| -> Result<Plan> {
            let map = map_fn::<Lines, String, u64, _>(|_, out| {
                let start = out.context().input().map_or(0, |input| input.start);
                out.emit(if start == 0 { String::new() } else { format!("at{start}") }, 1u64)
            });
            let reduce = reduce_fn::<String, u64, _>(|name, _, out| match name {
                "" => Ok(()),
                name => out.write_to(name, "seen", ()),
            });
            let job = crate::Job::new("files").input(text([path("in")])).map(map);
            Ok(job.reduce(reduce).reducers(1).output(text_out(path("out"))).into())
        };
        let caught = mr_model::runner::guard(|| driver.assert_deterministic(more));
        assert!(caught.unwrap_err().contains("depends on how the job runs"));
        let caught = mr_model::runner::guard(|| driver.assert_deterministic(job(false)));
        assert!(caught.unwrap_err().contains("depends on how the job runs"));
    }
}
