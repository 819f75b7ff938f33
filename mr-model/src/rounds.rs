//! Jobs that go in rounds: [`Rounds`].

use std::fmt;

use crate::datum::{Datum, Key, Put};
use crate::error::{Error, Result};
use crate::map::{Emit, Sink};
use crate::task::{Context, Output};

/// A value as a task reads it.
pub type View<'a, D> = <D as Datum>::View<'a>;

/// What an iterative job does with the keys that its maps emit, round after round.
///
/// Maps run once. What they emit for a key is *fixed*: it is sorted once and stays on the machine where it will be needed again. A key also
/// has a *state*, which changes from round to round, and sends *messages* to keys, which arrive in the next round. Only messages move.
///
/// ```text
/// round 0         begin ──► send
/// later rounds    update ─► send
/// last round      update ─► write          (after `is_done`: write)
/// ```
///
/// The tasks of a round share nothing but their *summaries*. A task adds to its own while it updates keys; in the next round, each task gets
/// the sum of all. It is how a round learns of a whole: the rank of nodes without targets, new centres of clusters, whether anything changed.
///
/// A job in rounds gives the same result whatever fails, provided that these functions depend on their arguments alone.
///
/// ```
/// use mr_api::rounds::{Entry, Round, Rounds};
/// use mr_api::{Emit, Job, LocalRunner, Output, Result, Sink, text, text_out};
///
/// /// Each node learns the least number that reaches it: the name of its component.
/// #[derive(Clone)]
/// struct Least;
///
/// impl Rounds for Least {
///     type Key = u32;
///     type Fixed = u32;
///     type State = u32;
///     type Message = u32;
///     type Summary = u64;
///
///     fn begin(&mut self, node: u32, _: Option<u32>, _: &mut Round<'_, u64>) -> Result<u32> {
///         Ok(node)
///     }
///
///     fn update(
///         &mut self,
///         entry: Entry<'_, Self>,
///         message: Option<u32>,
///         round: &mut Round<'_, u64>,
///     ) -> Result<u32> {
///         let least = message.unwrap_or(entry.state).min(entry.state);
///         *round.summary() += u64::from(least < entry.state);
///         Ok(least)
///     }
///
///     fn send<S: Sink>(&mut self, entry: Entry<'_, Self>, out: &mut Emit<u32, u32, S>) -> Result<()> {
///         entry.fixed.map_or(Ok(()), |neighbour| out.emit(neighbour, entry.state))
///     }
///
///     fn combine(&self, into: &mut u32, other: u32) {
///         *into = (*into).min(other);
///     }
///
///     fn add(&self, into: &mut u64, other: u64) {
///         *into += other;
///     }
///
///     fn is_done(&self, round: u32, changed: &u64) -> bool {
///         round > 0 && *changed == 0
///     }
///
///     fn write(&mut self, entry: Entry<'_, Self>, out: &mut Output) -> Result<()> {
///         out.write(entry.key, entry.state)
///     }
/// }
///
/// # let scratch = tempfile::tempdir()?;
/// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
/// std::fs::write(path("ring"), "1 2\n2 3\n3 1\n7 8\n8 7\n")?;
/// let job = Job::new("components")
///     .input(text([path("ring")]))
///     .map_fn::<u32, u32, _>(|line, out| {
///         let line = line.to_str_lossy();
///         let (from, to) = line.split_once(' ').ok_or("a line is two numbers")?;
///         out.emit(from.parse::<u32>()?, to.parse::<u32>()?)
///     })
///     .rounds(Least, 100)
///     .reducers(1)
///     .output(text_out(path("components")));
/// LocalRunner::new().run(job)?;
/// let components = std::fs::read_to_string(path("components/part-r-00000"))?;
/// assert_eq!(components, "1\t1\n2\t1\n3\t1\n7\t7\n8\t7\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
pub trait Rounds: Clone + Send + Sync + 'static {
    /// What maps emit values for and messages go to.
    type Key: Key;
    /// What maps emit.
    type Fixed: Datum + Put<Self::Fixed>;
    /// What changes.
    type State: Datum + Put<Self::State>;
    /// What keys send each other.
    type Message: Datum + Put<Self::Message> + Clone;
    /// What rounds know of each other. At most a mebibyte as bytes, and four from all tasks of a round.
    type Summary: Datum + Put<Self::Summary> + Default + Clone;

    /// Called once before the keys of a task, for instance to compute something from [`Round::total`].
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn setup(&mut self, _round: &mut Round<'_, Self::Summary>) -> Result<()> {
        Ok(())
    }

    /// Joins two values that maps emitted for one key; they come in the order of the input. By default a key has only one.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn join(&self, _into: &mut Self::Fixed, _other: Self::Fixed) -> Result<()> {
        Err(Error::SeveralFixed.into())
    }

    /// The state with which a key begins: in round 0, or, if maps emitted nothing for it, when the first message reaches it.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn begin(
        &mut self,
        key: View<'_, Self::Key>,
        fixed: Option<View<'_, Self::Fixed>>,
        round: &mut Round<'_, Self::Summary>,
    ) -> Result<Self::State>;

    /// The new state of a key. Called for every key in every round but the first; `message` is what it received, combined.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn update(
        &mut self,
        entry: Entry<'_, Self>,
        message: Option<Self::Message>,
        round: &mut Round<'_, Self::Summary>,
    ) -> Result<Self::State>;

    /// Sends messages, which arrive in the next round.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn send<S: Sink>(
        &mut self,
        entry: Entry<'_, Self>,
        out: &mut Emit<Self::Key, Self::Message, S>,
    ) -> Result<()>;

    /// Combines two messages to one key. Must be associative and commutative in effect.
    fn combine(&self, into: &mut Self::Message, other: Self::Message);

    /// Adds up the summaries of two tasks; they come in the order of partitions.
    fn add(&self, into: &mut Self::Summary, other: Self::Summary);

    /// True if the job is done with the states after this round, whose summaries add up to `total`. The answer must follow from them alone.
    fn is_done(&self, _round: u32, _total: &Self::Summary) -> bool {
        false
    }

    /// How far the job has come after a round, as a number for people: the change that is left, the error. It is the job's curve.
    fn measure(&self, _round: u32, _total: &Self::Summary) -> Option<f64> {
        None
    }

    /// Writes a key after the last round.
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn write(&mut self, entry: Entry<'_, Self>, out: &mut Output) -> Result<()>;

    /// Called once after the keys of a task in the last round, for instance to write what was computed from [`Round::total`].
    ///
    /// # Errors
    /// Any error fails the attempt.
    fn finish(&mut self, _round: &mut Round<'_, Self::Summary>, _out: &mut Output) -> Result<()> {
        Ok(())
    }
}

/// A key with what is known of it.
pub struct Entry<'a, R: Rounds> {
    /// The key.
    pub key: View<'a, R::Key>,
    /// What maps emitted for it; `None` for a key that only messages made known.
    pub fixed: Option<View<'a, R::Fixed>>,
    /// Its state.
    pub state: View<'a, R::State>,
}

/// The round that a task is in.
pub struct Round<'a, S> {
    /// From 0.
    pub(crate) number: u32,
    pub(crate) partition: u32,
    pub(crate) is_over: bool,
    pub(crate) total: Option<S>,
    pub(crate) summary: S,
    pub(crate) context: &'a Context,
}

impl<S> Round<'_, S> {
    /// Its number: 0 for the one in which keys begin.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The task's partition, from 0.
    pub fn partition(&self) -> u32 {
        self.partition
    }

    /// True in the last round, which writes.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The sum of the summaries of the round before; `None` in round 0.
    pub fn total(&self) -> Option<&S> {
        self.total.as_ref()
    }

    /// This task's part of the summary of this round.
    pub fn summary(&mut self) -> &mut S {
        &mut self.summary
    }

    /// The task's context.
    pub fn context(&self) -> &Context {
        self.context
    }
}

impl<S> fmt::Debug for Round<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Round")
            .field("number", &self.number)
            .field("partition", &self.partition)
            .finish_non_exhaustive()
    }
}
