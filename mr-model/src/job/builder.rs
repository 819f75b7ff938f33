//! The job builder: each step is offered only where it makes sense, and types that do not fit do not compile.
//!
//! ```text
//! Job::new -> input -> map ----------------------------> output           (map-only)
//!                        |-> combine? -> reduce ----------> output
//!                        |-> rounds -----------------------> output
//! ```

use std::fmt;
use std::sync::Arc;

use mr_formats::{Format, ToText};
use protocol::property::{self, Properties, Scope, Verdict, keys};
use protocol::rounds::RoundsSpec;

use super::inputs::Input;
use super::into_reducer::{ByCombiner, ByFold, IntoMerger, IntoReducer};
use super::outputs::OutputTo;
use crate::datum::{Datum, Key};
use crate::engine::{
    Combining, CombiningSorted, Direct, InRounds, JobInput, JobSettings, MapSide, NoReduce,
    OutputPath, Reducers, Reducing, SideFile, Sorting, Stage, TypedSampler, TypedStage,
};
use crate::error::{Error, Result};
use crate::map::{
    Both, BothFormats, Emit, FirstElement, MapFn, Mapper, Partition, Partitioner,
    first_element_bytes, map_fn,
};
use crate::reduce::{CombineFilling, Combiner, Fold, Reducer};
use crate::rounds::Rounds;
use crate::task::OutputOptions;

/// A job under construction; `S` marks the step it has reached.
pub struct Job<S> {
    settings: JobSettings,
    state: S,
}

/// A job has a name and needs an input.
pub struct NeedsInput;

/// A job has an input and needs a mapper.
pub struct NeedsMapper<F> {
    format: F,
}

/// A job has a mapper: it can combine, reduce, or write its output directly.
pub struct Mapped<M: Mapper> {
    format: M::In,
    mapper: M,
}

/// A job has a mapper and a [`Fold`] as combiner and needs a reducer.
pub struct Combined<M: Mapper, F> {
    mapped: Mapped<M>,
    fold: F,
}

/// A job has a mapper and a [`Combiner`] and needs a reducer.
pub struct CombinedSorted<M: Mapper, C> {
    mapped: Mapped<M>,
    combiner: C,
}

/// A job has a mapper and goes in rounds; it needs an output.
pub struct Iterated<M: Mapper, R> {
    mapped: Mapped<M>,
    rounds: R,
    spec: RoundsSpec,
}

/// Rounds between two times that the state of all keys is written to the file system: it costs what a round costs, more or less.
pub const KEEP_EVERY_DEFAULT: u32 = 10;

/// What can combine the pairs of a mapper: a [`Fold`] or a [`Combiner`].
pub trait IntoCombined<M: Mapper, Kind> {
    /// The step that the job has then reached.
    type Step;
    /// Reaches it.
    fn combined(self, mapped: Mapped<M>) -> Self::Step;
}

impl<M: Mapper, F: Fold<M::Value>> IntoCombined<M, ByFold> for F {
    type Step = Combined<M, F>;

    fn combined(self, mapped: Mapped<M>) -> Self::Step {
        Combined { mapped, fold: self }
    }
}

impl<M, C> IntoCombined<M, ByCombiner> for C
where
    M: Mapper,
    C: Combiner<Key = M::Key, Value = M::Value>,
{
    type Step = CombinedSorted<M, C>;

    fn combined(self, mapped: Mapped<M>) -> Self::Step {
        CombinedSorted { mapped, combiner: self }
    }
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
            properties: Properties::new(),
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
        self.settings.inputs = vec![JobInput::new(input.paths, &input.format)];
        self.step(NeedsMapper { format: input.format })
    }
}

impl<S> Job<S> {
    fn step<T>(self, state: T) -> Job<T> {
        Job { settings: self.settings, state }
    }

    /// Gives every task a local file to read, which it finds with [`Context::side_file`](crate::Context::side_file). Each worker receives
    /// it once and checks it. With `hdfs://` or `webhdfs://` in front, `path` names a file of the cluster; `PATH#NAME` names the file.
    /// `--files A,B` on the command line does the same.
    ///
    /// # Errors
    /// If `path` has no usable name.
    pub fn side_file(mut self, path: &str) -> Result<Self> {
        self.settings.side_files.push(SideFile::parse(path)?);
        Ok(self)
    }

    /// Sets a property of the job, as `-D NAME=VALUE` does, which wins. A name of the author's own is for tasks, which read it with
    /// [`Context::property`](crate::Context::property).
    ///
    /// ```
    /// use mr_api::testing::JobDriver;
    /// use mr_api::{Job, text, text_out};
    ///
    /// let run = JobDriver::new().file("in", "a b,c").run(|path| {
    ///     let job = Job::new("fields")
    ///         .property("textinputformat.record.delimiter", ",")?
    ///         .property("fields.mark", "!")?
    ///         .input(text([path("in")]))
    ///         .map_fn::<String, String, _>(|line, out| {
    ///             let mark = out.context().property("fields.mark").unwrap_or_default().to_owned();
    ///             out.emit(line.to_str_lossy().as_ref(), mark)
    ///         })
    ///         .output(text_out(path("out")));
    ///     Ok(job.into())
    /// })?;
    /// assert_eq!(run.text("part"), "a b\t!\nc\t!\n");
    /// assert!(Job::new("slow").property("mapreduce.task.timeout", "soon").is_err());
    /// # Ok::<(), mr_api::BoxError>(())
    /// ```
    ///
    /// # Errors
    /// A value that the property does not take, and a name that would have no effect: where `-D` warns, this refuses.
    pub fn property(mut self, name: &str, value: &str) -> Result<Self> {
        let present = property::present_name(name);
        let reason = match property::judge(name, value, Scope::Jobs) {
            _ if present == keys::DEFAULT_FS.name() => {
                format!("{name} is chosen for all jobs of a program: give it with -D")
            }
            Verdict::Fine => {
                self.settings.properties.insert(present.to_owned(), value.to_owned());
                return Ok(self);
            }
            Verdict::Warning(reason) | Verdict::Refusal(reason) => reason,
        };
        Err(Error::JobProperty { job: self.settings.name, reason }.into())
    }

    /// Names something that the job depends on and that its types do not express, such as a number that a closure captures. Workers compare
    /// it with their own value when they rebuild the job, and refuse the job if it differs.
    pub fn depends_on(self, what: impl fmt::Debug) -> Self {
        let line = format!("depends on {what:?}");
        self.describe(&line.replace('\n', "\\n"))
    }

    fn describe(mut self, line: &str) -> Self {
        self.settings.describe(line);
        self
    }
}

impl<F: Format> Job<NeedsMapper<F>> {
    /// Sets the mapper.
    pub fn map<M: Mapper<In = F>>(self, mapper: M) -> Job<Mapped<M>> {
        let Job { settings, state } = self;
        Job { settings, state: Mapped { format: state.format, mapper } }
    }

    /// Sets a closure as mapper; name the types of key and value: `map_fn::<String, u64, _>(|line, out| …)`.
    pub fn map_fn<K: Key, V: Datum, C>(self, closure: C) -> Job<Mapped<MapFn<F, K, V, C>>>
    where
        C: Fn(F::Record<'_>, &mut Emit<K, V>) -> Result<()> + Clone + Send + Sync + 'static,
    {
        self.map(map_fn::<F, K, V, C>(closure))
    }
}

impl<M: Mapper> Job<Mapped<M>> {
    /// Adds another input with a mapper of its own, which emits the same types: for joins, and for data of several shapes. Can be called
    /// repeatedly.
    pub fn also<F: Format, N>(mut self, input: Input<F>, mapper: N) -> Job<Mapped<Both<M, N>>>
    where
        N: Mapper<In = F, Key = M::Key, Value = M::Value>,
    {
        let boundary = self.settings.inputs.len() as u32;
        self.settings.inputs.push(JobInput::new(input.paths, &input.format));
        let Job { settings, state } = self;
        let format = BothFormats { first: state.format, second: input.format };
        let mapper = Both { first: state.mapper, second: mapper, boundary };
        Job { settings, state: Mapped { format, mapper } }
    }

    /// Combines the pairs of a key on the map side. A [`Fold`] does it in a hash table where possible, and from here on the values are its
    /// accumulators. A [`Combiner`] gets sorted pairs. Either may be the job's reducer, too.
    pub fn combine<Kind, C: IntoCombined<M, Kind>>(self, combiner: C) -> Job<C::Step> {
        let Job { settings, state } = self;
        Job { settings, state: combiner.combined(state) }
    }

    /// Sets the reducer: a [`Reducer`], a [`Fold`] or a [`Combiner`].
    pub fn reduce<Kind, R: IntoReducer<M::Key, M::Value, Kind>>(self, reducer: R) -> Job<Reduced> {
        let Job { settings, state } = self;
        reduced(settings, state, Sorting, reducer.into_reducer())
    }

    /// Goes in rounds, `last` at most after the first, 1 to 10,000: see [`Rounds`]. The state of all keys is written to the file system every
    /// [`KEEP_EVERY_DEFAULT`] rounds; [`Job::keep_every`] says otherwise.
    ///
    /// ```text
    /// map ─► round 0 ─► round 1 ─► … ─► last round: the output
    /// ```
    pub fn rounds<R>(self, rounds: R, last: u32) -> Job<Iterated<M, R>>
    where
        R: Rounds<Key = M::Key, Fixed = M::Value>,
    {
        let Job { settings, state } = self;
        let spec = RoundsSpec { last, keep_every: KEEP_EVERY_DEFAULT };
        Job { settings, state: Iterated { mapped: state, rounds, spec } }
    }

    /// Chooses the reduce task of each key.
    pub fn partition(mut self, partitioner: impl Partitioner<M::Key>) -> Self {
        (self.settings.partition, self.settings.sampler) = (Partition::custom(partitioner), None);
        self
    }

    /// Secondary sort: keys with equal first elements go to one reduce task and form one group. In the group, the values come in the order
    /// of the other elements. A partitioner of the job's own stays, before or after this.
    pub fn group_by_first(mut self) -> Self
    where
        M::Key: FirstElement,
    {
        self.settings.group_prefix = Some(first_element_bytes::<M::Key>);
        if let Partition::Hash = self.settings.partition {
            self.settings.partition = Partition::prefix(first_element_bytes::<M::Key>);
        }
        self
    }

    /// Sorts the job's output as a whole: every key in `part-r-00000` comes before every key in `part-r-00001`, and so on. The driver first
    /// runs the mapper on a sample of the input, to give each reduce task about as many pairs. With
    /// [`group_by_first`](Job::group_by_first), equal first elements still go to one task.
    ///
    /// Call it after adding all inputs ([`Job::also`]).
    ///
    /// ```
    /// use mr_api::{Job, LocalRunner, reduce_fn, text, text_out};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    /// std::fs::write(path("in"), "pear\nfig\napple\nplum\n")?;
    /// let job = Job::new("sort")
    ///     .input(text([path("in")]))
    ///     .map_fn::<Vec<u8>, (), _>(|line, out| out.emit(line.bytes, ()))
    ///     .total_order()
    ///     .reduce(reduce_fn::<Vec<u8>, (), _>(|key, values, out| {
    ///         while values.next_value()?.is_some() {
    ///             out.write(key, ())?;
    ///         }
    ///         Ok(())
    ///     }))
    ///     .reducers(2)
    ///     .output(text_out(path("out")));
    /// LocalRunner::new().run(job)?;
    /// let part = |number| std::fs::read_to_string(path(&format!("out/part-r-0000{number}")));
    /// assert_eq!(part(0)? + &part(1)?, "apple\nfig\npear\nplum\n");
    /// # Ok::<(), mr_api::BoxError>(())
    /// ```
    pub fn total_order(mut self) -> Self {
        let Mapped { format, mapper } = &self.state;
        self.settings.partition = Partition::Sampled;
        self.settings.sampler = Some(Arc::new(TypedSampler {
            format: format.clone(),
            mapper: mapper.clone(),
            inputs: self.settings.inputs.len(),
        }));
        self
    }

    /// Writes the pairs as text, without a reduce.
    pub fn output(self, output: OutputTo) -> CompleteJob
    where
        for<'a> <M::Key as Datum>::View<'a>: ToText,
        for<'a> <M::Value as Datum>::View<'a>: ToText,
    {
        let Job { mut settings, state } = self;
        settings.set_output(output.path, output.options);
        let Mapped { format, mapper } = state;
        let stage =
            TypedStage { settings, format, mapper, map_side: Direct, reduce_side: NoReduce };
        CompleteJob { stage: Box::new(stage) }
    }
}

impl<M: Mapper, R: Rounds<Key = M::Key, Fixed = M::Value>> Job<Iterated<M, R>> {
    /// After how many rounds the state of all keys is written to the file system; 0 for never. A lost worker costs the rounds since then,
    /// for its keys.
    pub fn keep_every(mut self, rounds: u32) -> Self {
        self.state.spec.keep_every = rounds;
        self
    }

    /// How many tasks each round has: [`Auto`](crate::Auto) or a number, over which `--reducers` wins, or
    /// [`Always`](crate::Always) so many.
    pub fn reducers(mut self, reducers: impl Into<Reducers>) -> Self {
        self.settings.reducers = reducers.into();
        self
    }

    /// Where to write.
    pub fn output(self, output: OutputTo) -> CompleteJob {
        let Job { mut settings, state } = self;
        settings.set_output(output.path, output.options);
        let Iterated { mapped: Mapped { format, mapper }, rounds, spec } = state;
        settings.describe(&format!("rounds {} keep every {}", spec.last, spec.keep_every));
        let reduce_side = InRounds { rounds, spec };
        let stage = TypedStage { settings, format, mapper, map_side: Sorting, reduce_side };
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

impl<M: Mapper, C: Combiner> Job<CombinedSorted<M, C>> {
    /// Sets the reducer: a [`Reducer`], a [`Fold`] or a [`Combiner`].
    pub fn reduce<Kind, R: IntoReducer<M::Key, M::Value, Kind>>(self, reducer: R) -> Job<Reduced> {
        let Job { settings, state } = self;
        reduced(settings, state.mapped, CombiningSorted(state.combiner), reducer.into_reducer())
    }
}

/// Like [`Job::combine`] and [`Job::reduce`], for a combiner that processes whole fillings of the sort buffer.
pub fn combine_fillings<M, C, R>(job: Job<Mapped<M>>, combiner: C, reducer: R) -> Job<Reduced>
where
    M: Mapper,
    C: CombineFilling<Key = M::Key, Value = M::Value>,
    R: Reducer<Key = M::Key, Value = M::Value>,
{
    let Job { settings, state } = job;
    reduced(settings, state, CombiningSorted(combiner), reducer)
}

/// Changes the settings of a job under construction, as no author can.
pub fn amend<S>(mut job: Job<S>, change: impl FnOnce(&mut JobSettings)) -> Job<S> {
    change(&mut job.settings);
    job
}

/// Everything but the output is known: `map_side` runs between mapper and reducer.
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
    /// How many reduce tasks: [`Auto`](crate::Auto) or a number, over which `--reducers` wins, or
    /// [`Always`](crate::Always) so many. With 0 the reducer and the
    /// combiner do not run: the maps' pairs are written as text, in files `part-m-00000` and so on.
    pub fn reducers(mut self, reducers: impl Into<Reducers>) -> Self {
        self.settings.reducers = reducers.into();
        self
    }

    /// Where to write.
    pub fn output(self, output: OutputTo) -> CompleteJob {
        let Job { mut settings, state } = self;
        settings.set_output(output.path, output.options);
        CompleteJob { stage: (state.build)(settings) }
    }
}
