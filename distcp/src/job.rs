//! The job: each map copies a bundle, and one reduce writes the log and does the last step when all maps are done.

use std::io::BufReader;
use std::sync::Arc;

use client::dfs::{CreateOptions, DfsClient};
use mr_api::built_in::{file_system, progress};
use mr_api::formats::Rows;
use mr_api::job::rows;
use mr_api::map::{Emit, Mapper, Sink};
use mr_api::reduce::{Groups, Reducer};
use mr_api::task::Output;
use mr_api::{Always, Context, Job, Plan, Values, text_out};
use protocol::DfsPath;

use crate::commit::{commit, read};
use crate::copy::{Copier, Done, Progress};
use crate::error::{Error, Result};
use crate::listing::TRIES;
use crate::order::{Entry, FILE_MODE, Order};
use crate::places::{Location, Places, Tokens};

/// Hadoop's group of counters.
pub(crate) const COUNTERS: &str = "org.apache.hadoop.tools.mapred.CopyMapper$Counter";

/// The job that an order describes, with its output. In a job that runs in the driver, `places` are the driver's.
pub(crate) fn plan(
    order: &Arc<Order>,
    output: &str,
    places: Option<Places>,
) -> mr_api::Result<Plan> {
    let places = places.map(Arc::new);
    let job = Job::new("distcp")
        // A second attempt beside the first would copy everything twice.
        .property("mapreduce.map.speculative", "false")?
        .property("mapreduce.reduce.speculative", "false")?
        .input(rows(u64::from(order.bundles), order.bundles.max(1)))
        .map(CopyMapper { order: Arc::clone(order), places: places.clone() })
        .reduce(LastStep { order: Arc::clone(order), places });
    Ok(job.reducers(Always(1)).output(text_out(output)).into())
}

/// What a task reaches: as the driver, or with the rights of the job's owner and the tokens that the driver left.
fn places(order: &Order, given: Option<&Arc<Places>>, context: &Context) -> mr_api::Result<Places> {
    if let Some(places) = given {
        return Ok((**places).clone());
    }
    let tokens: Tokens = serde_json::from_reader(BufReader::new(context.open(&order.tokens())?))?;
    Ok(Places::new(file_system(context), order.user.clone(), tokens, order.creation))
}

#[derive(Clone)]
struct CopyMapper {
    order: Arc<Order>,
    places: Option<Arc<Places>>,
}

/// Reports the bytes of a bundle as they are copied.
struct Shares<'a> {
    context: &'a Context,
    done: u64,
    all: u64,
}

impl Progress for Shares<'_> {
    fn copied(&mut self, bytes: u64) {
        self.done += bytes;
        progress(self.context, self.done as f64 / self.all.max(1) as f64);
    }
}

impl Mapper for CopyMapper {
    type In = Rows;
    type Key = String;
    type Value = ();

    fn map<S: Sink>(&mut self, row: u64, out: &mut Emit<String, (), S>) -> mr_api::Result<()> {
        let context = out.context().clone();
        let order = Arc::clone(&self.order);
        let places = places(&order, self.places.as_ref(), &context)?;
        let list = BufReader::new(context.open(&order.bundle(row))?);
        let entries: Vec<Entry> = read(list).collect::<Result<_>>()?;
        let all = entries.iter().map(|entry| entry.status.length).sum();
        let mut shares = Shares { context: &context, done: 0, all };
        let attempt = context.attempt().to_string();
        let mut copier = Copier::new(&order, &places, attempt)?;
        for entry in &entries {
            let target = order.work.below(&entry.relative);
            context.status(&format!("Copying {} to {target}", entry.source));
            let done = copy(&order, &mut copier, entry, &mut shares);
            report(&order, entry, &target, done, out)?;
        }
        Ok(())
    }
}

/// Copies one entry; with `-i`, tries again what cannot be read.
fn copy(
    order: &Order,
    copier: &mut Copier<'_>,
    entry: &Entry,
    shares: &mut Shares<'_>,
) -> Result<Done> {
    let mut tries = 1;
    loop {
        match copier.copy(entry, shares) {
            Err(Error::Read { .. }) if order.ignore_failures && tries < TRIES => tries += 1,
            done => return done,
        }
    }
}

/// Counts what became of an entry and tells the log.
fn report<S: Sink>(
    order: &Order,
    entry: &Entry,
    target: &Location,
    done: Result<Done>,
    out: &mut Emit<String, (), S>,
) -> mr_api::Result<()> {
    let count = |name: &str, amount: u64| out.counter(COUNTERS, name).add(amount);
    let (source, length) = (&entry.source, entry.status.length);
    let line = match done {
        Ok(Done::Directory) => {
            count("DIR_COPY", 1);
            None
        }
        Ok(Done::Copied { bytes } | Done::Appended { bytes }) => {
            count("COPY", 1);
            count("BYTESCOPIED", bytes);
            count("BYTESEXPECTED", length);
            let is_told = order.verbose;
            is_told
                .then(|| format!("FILE_COPIED: source={source}, size={length} --> target={target}"))
        }
        Ok(Done::Skipped) => {
            count("SKIP", 1);
            count("BYTESSKIPPED", length);
            Some(match order.verbose {
                true => format!("FILE_SKIPPED: source={source}, size={length} --> target={target}"),
                false => format!("SKIP: {source}"),
            })
        }
        Err(error @ (Error::Read { .. } | Error::Unlisted { .. })) if order.ignore_failures => {
            count("FAIL", 1);
            count("BYTESFAILED", length);
            Some(format!("FAIL: {source} - {}", protocol::error::chain(&error)))
        }
        Err(error) => return Err(error.into()),
    };
    match line {
        Some(line) => out.emit(one_line(&line).as_str(), ()),
        None => Ok(()),
    }
}

/// A line of the log is one line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[derive(Clone)]
struct LastStep {
    order: Arc<Order>,
    places: Option<Arc<Places>>,
}

impl Reducer for LastStep {
    type Key = String;
    type Value = ();

    fn run(&mut self, groups: &mut Groups<'_, String, ()>, out: &mut Output) -> mr_api::Result<()> {
        while let Some((key, mut values)) = groups.next_group()? {
            self.reduce(key, &mut values, out)?;
        }
        let context = out.context().clone();
        let order = &self.order;
        let ending = Ending::of(order, &context)?;
        if let Some(ending) = &ending
            && ending.is_done()?
        {
            // An attempt before this one did the last step, and perhaps not all after it.
            return ending.remove_lists();
        }
        let places = places(order, self.places.as_ref(), &context)?;
        let list = BufReader::new(context.open(&order.whole())?);
        let committed = commit(order, &places, list, &mut || context.show_life())?;
        if order.delete {
            context.counter(COUNTERS, "DELETED").add(committed.deleted);
        }
        match ending {
            Some(ending) => ending.end(),
            None => Ok(()),
        }
    }

    fn reduce(
        &mut self,
        key: &str,
        _: &mut Values<'_, String, ()>,
        out: &mut Output,
    ) -> mr_api::Result<()> {
        out.write(key, ())
    }
}

/// The end of a job on the cluster. Its last step deletes the lists: the driver may have ended.
struct Ending {
    dfs: DfsClient,
    lists: DfsPath,
    done: DfsPath,
}

impl Ending {
    /// `None` in a job that runs in the driver.
    fn of(order: &Order, context: &Context) -> mr_api::Result<Option<Self>> {
        let Some(dfs) = file_system(context) else { return Ok(None) };
        let (lists, done) = (DfsPath::parse(&order.lists)?, DfsPath::parse(&order.done())?);
        Ok(Some(Ending { dfs, lists, done }))
    }

    /// Lists that are gone say nothing: somebody may have deleted them.
    fn is_done(&self) -> mr_api::Result<bool> {
        Ok(self.dfs.try_status(&self.done)?.is_some())
    }

    fn end(&self) -> mr_api::Result<()> {
        let options =
            CreateOptions { overwrite: true, mode: FILE_MODE, ..CreateOptions::default() };
        self.dfs.create(&self.done, options)?.close()?;
        self.remove_lists()
    }

    fn remove_lists(&self) -> mr_api::Result<()> {
        self.dfs.delete(&self.lists, true)?;
        Ok(())
    }
}
