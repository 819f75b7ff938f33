//! The job builder: each step is offered only where it makes sense, and types that do not fit do not compile.
//!
//! ```text
//! Job::new -> input -> map ----------------------------> output           (map-only)
//!                        |-> combine? -> reduce ----------> output
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::Result;
use crate::cache::SideFile;
use crate::codec::FileCodec;
use crate::combine::{CombineSorted, CombiningSorted};
use crate::datum::{Datum, Key};
use crate::fold::Fold;
use crate::input::{Cut, Format};
use crate::mapper::{Emit, MapFn, Mapper, map_fn};
use crate::multiple::{Both, BothFormats};
use crate::output::{Naming, OutputOptions};
use crate::partition::{FirstElement, Partition, Partitioner, first_element_bytes};
use crate::plan::JobOutput;
use crate::reducer::{LiftReducer, MergeReducer, Reducer};
use crate::stage::{Combining, Direct, MapSide, NoReduce, Reducing, Sorting, Stage, TypedStage};
use crate::text::{Lines, ToText};
use crate::total_order::Sampler;

/// How many reduce tasks a job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reducers {
    /// As many as what the maps made is worth, counted when all of them are done: one for every 64 MiB, with more as many as there are
    /// slots, and none of more than 1 GiB where keys can be parted so far. Partitioners see more partitions than there will be
    /// reduces; neighbouring ones are reduced together, in the order of all their keys.
    Auto,
    /// Exactly so many; with none what the maps emit is the output.
    Exactly(u32),
}

/// The default: see [`Reducers::Auto`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Auto;

impl From<Auto> for Reducers {
    fn from(_: Auto) -> Self {
        Reducers::Auto
    }
}

impl From<u32> for Reducers {
    fn from(count: u32) -> Self {
        Reducers::Exactly(count)
    }
}

/// What a job reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputPaths {
    /// Files and directories.
    Paths(Vec<String>),
    /// The output of the job before it in the plan.
    Previous,
    /// Outputs of jobs added to the plan before.
    Outputs(Vec<JobOutput>),
    /// Numbers, without any file.
    Rows { rows: u64, maps: u32 },
}

/// One of the inputs of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobInput {
    pub(crate) paths: InputPaths,
    pub(crate) cut: Cut,
}

/// An input: paths and their format. Made by [`text`] or [`previous`].
#[derive(Clone, Debug)]
pub struct Input<F> {
    pub(crate) paths: InputPaths,
    pub(crate) format: F,
}

/// The lines of text files. A directory stands for the files in it; names that begin with `_` or `.` are left out.
pub fn text<P: Into<String>>(paths: impl IntoIterator<Item = P>) -> Input<Lines> {
    let paths = InputPaths::Paths(paths.into_iter().map(Into::into).collect());
    Input { paths, format: Lines }
}

/// Files in any [`Format`]; directories and hidden files as in [`text`].
///
/// ```
/// use mr_api::{FixedLength, from_files};
///
/// let records = from_files(["/measurements"], FixedLength { bytes: 100 });
/// # let _ = records;
/// ```
pub fn from_files<F: Format, P: Into<String>>(
    paths: impl IntoIterator<Item = P>,
    format: F,
) -> Input<F> {
    Input { paths: InputPaths::Paths(paths.into_iter().map(Into::into).collect()), format }
}

/// The lines of the output of the job before this one in a [`Plan`](crate::Plan).
pub fn previous() -> Input<Lines> {
    Input { paths: InputPaths::Previous, format: Lines }
}

/// Where a job writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OutputPath {
    /// A directory that does not exist yet.
    Path(String),
    /// A directory of its own that goes when the plan is done.
    Intermediate,
}

/// An output; made by [`text_out`] or [`intermediate`].
#[derive(Clone, Debug)]
pub struct OutputTo {
    path: OutputPath,
    pub(crate) options: OutputOptions,
}

impl OutputTo {
    fn new(path: OutputPath) -> Self {
        OutputTo { path, options: OutputOptions::default() }
    }

    /// Keys and values as they are; see [`raw_out`].
    pub fn raw(mut self) -> Self {
        self.options.raw = true;
        self
    }

    /// Files appear with their first record: a task that writes nothing leaves none.
    pub fn lazy(mut self) -> Self {
        self.options.lazy = true;
        self
    }

    /// Compressed files, with the codec's extension.
    pub fn compressed(mut self, codec: FileCodec) -> Self {
        self.options.codec = Some(codec);
        self
    }

    /// So many replicas of each file, instead of the cluster's default. `-D dfs.replication=N` does the same.
    pub fn replication(mut self, count: u16) -> Self {
        self.options.replication = Some(count);
        self
    }

    /// Files `part-00000` and so on, without a letter for the kind of task.
    pub(crate) fn named_plainly(mut self) -> Self {
        self.options.naming = Naming::Plain;
        self
    }

    /// No files at all; for jobs that only count, or write by other ways.
    pub fn discard(mut self) -> Self {
        self.options.discard = true;
        self
    }
}

/// Text files `part-r-00000` and so on in a new directory.
pub fn text_out(path: impl Into<String>) -> OutputTo {
    OutputTo::new(OutputPath::Path(path.into()))
}

/// Files of keys and values as they are, nothing between or behind them: for records of a fixed length, and for formats that the reducer
/// writes itself.
pub fn raw_out(path: impl Into<String>) -> OutputTo {
    text_out(path).raw()
}

/// Output for the next job of the plan alone.
pub fn intermediate() -> OutputTo {
    OutputTo::new(OutputPath::Intermediate)
}

#[derive(Clone)]
pub(crate) struct JobSettings {
    pub(crate) name: String,
    pub(crate) inputs: Vec<JobInput>,
    pub(crate) output: OutputPath,
    pub(crate) output_options: OutputOptions,
    pub(crate) side_files: Vec<SideFile>,
    /// What driver and task runner must agree on besides types, one line each.
    pub(crate) description: String,
    pub(crate) reducers: Reducers,
    pub(crate) partition: Partition,
    pub(crate) group_prefix: Option<shuffle::GroupPrefix>,
    /// Finds the key ranges of the reduces, if they are in total order.
    pub(crate) sampler: Option<Arc<dyn Sampler>>,
}

impl JobSettings {
    fn set_output(&mut self, output: OutputTo) {
        (self.output, self.output_options) = (output.path, output.options);
    }
}

/// A job under construction; `S` says how far it is.
pub struct Job<S> {
    pub(crate) settings: JobSettings,
    pub(crate) state: S,
}

/// A job has a name and needs an input.
pub struct NeedsInput;

/// A job has an input and needs a mapper.
pub struct NeedsMapper<F> {
    format: F,
}

/// A job has a mapper: it can combine, reduce, or write its output directly.
pub struct Mapped<M: Mapper> {
    pub(crate) format: M::In,
    pub(crate) mapper: M,
}

/// A job has a mapper and a combiner and needs a reducer.
pub struct Combined<M: Mapper, F> {
    mapped: Mapped<M>,
    fold: F,
}

/// A job has a mapper and a combiner that sees sorted pairs, and needs a reducer.
pub struct CombinedSorted<M: Mapper, C> {
    mapped: Mapped<M>,
    combiner: C,
}

/// A job has everything but an output.
pub struct Reduced {
    build: Box<dyn FnOnce(JobSettings) -> Box<dyn Stage>>,
}

/// A complete job: an element of a [`Plan`](crate::Plan).
pub struct CompleteJob {
    pub(crate) stage: Box<dyn Stage>,
}

impl fmt::Debug for CompleteJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompleteJob").field(&self.stage.settings().name).finish()
    }
}

impl Job<NeedsInput> {
    /// Begins a job; `name` is for people.
    pub fn new(name: impl Into<String>) -> Job<NeedsInput> {
        let settings = JobSettings {
            name: name.into(),
            inputs: Vec::new(),
            output: OutputPath::Intermediate,
            output_options: OutputOptions::default(),
            side_files: Vec::new(),
            description: String::new(),
            reducers: Reducers::Auto,
            partition: Partition::Hash,
            group_prefix: None,
            sampler: None,
        };
        Job { settings, state: NeedsInput }
    }

    /// What to read.
    pub fn input<F: Format>(mut self, input: Input<F>) -> Job<NeedsMapper<F>> {
        self.settings.inputs = vec![JobInput { paths: input.paths, cut: input.format.cut() }];
        self.step(NeedsMapper { format: input.format })
    }
}

impl<S> Job<S> {
    fn step<T>(self, state: T) -> Job<T> {
        Job { settings: self.settings, state }
    }

    /// Gives every task a local file to read: [`Context::side_file`](crate::Context::side_file) of its name says where it lies. It is
    /// sent once to each worker and checked there. With `hdfs://` or `webhdfs://` in front, `path` is one of the cluster; `PATH#NAME` names
    /// it. `--files A,B` on the command line does the same.
    ///
    /// # Errors
    /// If `path` has no usable name.
    pub fn side_file(mut self, path: &str) -> Result<Self> {
        self.settings.side_files.push(SideFile::parse(path)?);
        Ok(self)
    }

    /// Names something that the job depends on and that its types do not show, such as a number that a closure captures. Workers compare it with
    /// what they have when they rebuild the job, and refuse it where it differs.
    pub fn depends_on(self, what: impl fmt::Debug) -> Self {
        let line = format!("depends on {what:?}");
        self.describe(line.replace('\n', "\\n"))
    }

    pub(crate) fn side_files(mut self, files: Vec<SideFile>) -> Self {
        self.settings.side_files.extend(files);
        self
    }

    pub(crate) fn describe(mut self, line: String) -> Self {
        self.settings.description.push_str(&line);
        self.settings.description.push('\n');
        self
    }
}

impl<F: Format> Job<NeedsMapper<F>> {
    /// Sets the mapper.
    pub fn map<M: Mapper<In = F>>(self, mapper: M) -> Job<Mapped<M>> {
        let Job { settings, state } = self;
        Job { settings, state: Mapped { format: state.format, mapper } }
    }

    /// Sets a closure as mapper; the types of key and value must be named: `map_fn::<String, u64, _>(|line, out| …)`.
    pub fn map_fn<K: Key, V: Datum, C>(self, closure: C) -> Job<Mapped<MapFn<F, K, V, C>>>
    where
        C: Fn(F::Record<'_>, &mut Emit<K, V>) -> Result<()> + Clone + Send + Sync + 'static,
    {
        self.map(map_fn::<F, K, V, C>(closure))
    }
}

impl<M: Mapper> Job<Mapped<M>> {
    /// Adds another input with a mapper of its own, which emits the same types: for joins, and for data of several shapes. May be called
    /// again.
    pub fn also<F: Format, N>(mut self, input: Input<F>, mapper: N) -> Job<Mapped<Both<M, N>>>
    where
        N: Mapper<In = F, Key = M::Key, Value = M::Value>,
    {
        let boundary = self.settings.inputs.len() as u32;
        self.settings.inputs.push(JobInput { paths: input.paths, cut: input.format.cut() });
        let Job { settings, state } = self;
        let format = BothFormats { first: state.format, second: input.format };
        let mapper = Both { first: state.mapper, second: mapper, boundary };
        Job { settings, state: Mapped { format, mapper } }
    }

    /// Combines the values of a key on the map side, in a hash table where possible. From here on the values are accumulators.
    pub fn combine<F: Fold<M::Value>>(self, fold: F) -> Job<Combined<M, F>> {
        let Job { settings, state } = self;
        Job { settings, state: Combined { mapped: state, fold } }
    }

    /// Sets the reducer: a [`Reducer`] or a [`Fold`].
    pub fn reduce<Kind, R: IntoReducer<M::Key, M::Value, Kind>>(self, reducer: R) -> Job<Reduced> {
        let Job { settings, state } = self;
        reduced(settings, state, Sorting, reducer.into_reducer())
    }

    pub(crate) fn partition_by(mut self, partition: Partition) -> Self {
        self.settings.partition = partition;
        self
    }

    pub(crate) fn combine_sorted<C: CombineSorted>(self, combiner: C) -> Job<CombinedSorted<M, C>> {
        let Job { settings, state } = self;
        Job { settings, state: CombinedSorted { mapped: state, combiner } }
    }

    /// Chooses the reduce task of each key.
    pub fn partition(mut self, partitioner: impl Partitioner<M::Key>) -> Self {
        (self.settings.partition, self.settings.sampler) = (Partition::custom(partitioner), None);
        self
    }

    /// Secondary sort: keys whose first elements are equal go to one reduce task and form one group, in which the values come in the
    /// order of the other elements.
    pub fn group_by_first(mut self) -> Self
    where
        M::Key: FirstElement,
    {
        self.settings.group_prefix = Some(first_element_bytes::<M::Key>);
        if self.settings.sampler.is_none() {
            self.settings.partition = Partition::prefix(first_element_bytes::<M::Key>);
        }
        self
    }

    /// Writes the pairs as text, without any reduce.
    pub fn output(self, output: OutputTo) -> CompleteJob
    where
        for<'a> <M::Key as Datum>::View<'a>: ToText,
        for<'a> <M::Value as Datum>::View<'a>: ToText,
    {
        let Job { mut settings, state } = self;
        settings.set_output(output);
        let Mapped { format, mapper } = state;
        let stage =
            TypedStage { settings, format, mapper, map_side: Direct, reduce_side: NoReduce };
        CompleteJob { stage: Box::new(stage) }
    }
}

impl<M: Mapper, F: Fold<M::Value>> Job<Combined<M, F>> {
    /// Chooses the reduce task of each key.
    pub fn partition(mut self, partitioner: impl Partitioner<M::Key>) -> Self {
        (self.settings.partition, self.settings.sampler) = (Partition::custom(partitioner), None);
        self
    }

    /// Sets the reducer: the same [`Fold`] again, or a [`Reducer`] of its accumulators.
    pub fn reduce<Kind, R: IntoMerger<M::Key, M::Value, F, Kind>>(
        self,
        reducer: R,
    ) -> Job<Reduced> {
        let Job { settings, state } = self;
        reduced(settings, state.mapped, Combining(state.fold), reducer.into_merger())
    }
}

impl<M: Mapper, C: CombineSorted> Job<CombinedSorted<M, C>> {
    /// Sets the reducer: a [`Reducer`] or a [`Fold`].
    pub fn reduce<Kind, R: IntoReducer<M::Key, M::Value, Kind>>(self, reducer: R) -> Job<Reduced> {
        let Job { settings, state } = self;
        reduced(settings, state.mapped, CombiningSorted(state.combiner), reducer.into_reducer())
    }
}

/// Everything but the output is known: `map_side` is what stands between mapper and reducer.
fn reduced<M: Mapper, R: Reducer>(
    settings: JobSettings,
    Mapped { format, mapper }: Mapped<M>,
    map_side: impl MapSide<M>,
    reducer: R,
) -> Job<Reduced> {
    let build = Box::new(move |settings: JobSettings| -> Box<dyn Stage> {
        let reduce_side = Reducing { reducer, group_prefix: settings.group_prefix };
        Box::new(TypedStage { settings, format, mapper, map_side, reduce_side })
    });
    Job { settings, state: Reduced { build } }
}

impl Job<Reduced> {
    /// How many reduce tasks: [`Auto`] or a number. `--reducers` on the command line wins over it. With 0 the reducer and the combiner are not
    /// called: what the maps emit is written as text, in files `part-m-00000` and so on.
    pub fn reducers(mut self, reducers: impl Into<Reducers>) -> Self {
        self.settings.reducers = reducers.into();
        self
    }

    /// Where to write.
    pub fn output(self, output: OutputTo) -> CompleteJob {
        let Job { mut settings, state } = self;
        settings.set_output(output);
        CompleteJob { stage: (state.build)(settings) }
    }
}

/// Marks that a [`Reducer`] was given.
pub struct ByReducer;
/// Marks that a [`Fold`] was given.
pub struct ByFold;

/// What can reduce values that were not combined.
pub trait IntoReducer<K: Key, V: Datum, Kind> {
    /// The reducer that does it.
    type Reducer: Reducer<Key = K, Value = V>;
    /// Makes it.
    fn into_reducer(self) -> Self::Reducer;
}

impl<K: Key, V: Datum, R: Reducer<Key = K, Value = V>> IntoReducer<K, V, ByReducer> for R {
    type Reducer = R;

    fn into_reducer(self) -> R {
        self
    }
}

impl<K: Key, V: Datum, F: Fold<V>> IntoReducer<K, V, ByFold> for F
where
    for<'a> K::View<'a>: ToText,
    F::Acc: ToText,
{
    type Reducer = LiftReducer<F, K, V>;

    fn into_reducer(self) -> Self::Reducer {
        LiftReducer { fold: self, types: PhantomData }
    }
}

/// What can reduce the accumulators of the combiner `F`.
pub trait IntoMerger<K: Key, V: Datum, F: Fold<V>, Kind> {
    /// The reducer that does it.
    type Reducer: Reducer<Key = K, Value = F::Acc>;
    /// Makes it.
    fn into_merger(self) -> Self::Reducer;
}

impl<K: Key, V: Datum, F: Fold<V>, R: Reducer<Key = K, Value = F::Acc>>
    IntoMerger<K, V, F, ByReducer> for R
{
    type Reducer = R;

    fn into_merger(self) -> R {
        self
    }
}

impl<K: Key, V: Datum, F: Fold<V>> IntoMerger<K, V, F, ByFold> for F
where
    for<'a> K::View<'a>: ToText,
    F::Acc: ToText,
{
    type Reducer = MergeReducer<F, K, V>;

    fn into_merger(self) -> Self::Reducer {
        MergeReducer { fold: self, types: PhantomData }
    }
}
