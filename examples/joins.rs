//! Joins users with their visits, in the three ways that cover most practical cases.
//!
//! ```text
//! cargo run --release --example joins -- --local reduce users.tsv visits.tsv OUT
//! cargo run --release --example joins -- --local merge users.tsv visits.tsv OUT
//! cargo run --release --example joins -- --local --files users.tsv broadcast users.tsv visits.tsv OUT
//! ```
//!
//! All read `id<TAB>name` and `id<TAB>page` and write `name<TAB>page`.
//!
//! **Reduce-side join**, for two large inputs: each input has a mapper of its own ([`Job::also`]). The key is `(id, side)`, grouped by its
//! first element. The reducer of an id therefore gets the user first and then all visits, and holds one name in memory, however many visits
//! there are.
//!
//! **Merge join**, for inputs that are sorted and partitioned alike, as outputs of jobs often are: a map-only job reads the same part of
//! both side by side. Here two independent jobs first sort the inputs at the same time, and a third joins their outputs: a graph of jobs in
//! one [`Plan`].
//!
//! **Broadcast join**, for a small and a large input: the small one is a side file that every task reads once into a map; no sort, no
//! reduce.

use std::collections::HashMap;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use mr_api::formats::{KeyValueLines, Uncut};
use mr_api::job::{CompleteJob, JobOutput, output_of};
use mr_api::map::{Records, SortedFile};
use mr_api::{
    Args, Context, Emit, Job, Mapper, Output, Plan, Reducer, Result, Sink, Values, from_files,
    intermediate, map_fn, reduce_fn, text_out, usage_error,
};

const HELP: &str = "\
Joins `id<TAB>name` with `id<TAB>page` into `name<TAB>page`.

Usage: joins [options] reduce USERS VISITS OUT
       joins [options] merge USERS VISITS OUT
       joins [options] --files USERS-FILE broadcast USERS-FILE VISITS OUT

  reduce                 sorts both inputs by id; for inputs of any size
  merge                  sorts each input by id in a job of its own and reads both results side by side
  broadcast              gives every task the users (a local file); for users that fit in memory
";

/// Text fields separated by tabs.
const TABS: KeyValueLines = KeyValueLines { separator: b'\t' };

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let operands = args.operands()?;
    let [way, users, visits, output] = &operands[..] else {
        return usage_error("a way to join and three paths are needed");
    };
    match way.as_str() {
        "reduce" => Ok(reduce_side(users, visits, output)),
        "merge" => Ok(merge(users, visits, output)),
        "broadcast" => Ok(broadcast(users, visits, output)),
        _ => usage_error(format!("`{way}` is none of reduce, merge and broadcast")),
    }
}

/// The input that a pair came from: users sort before visits.
const USER: u8 = 0;
const VISIT: u8 = 1;

/// Emits `((id, SIDE), text)`.
#[derive(Clone)]
struct Tag<const SIDE: u8>;

impl<const SIDE: u8> Mapper for Tag<SIDE> {
    type In = KeyValueLines;
    type Key = (Vec<u8>, u8);
    type Value = Vec<u8>;

    fn map<S: Sink>(
        &mut self,
        (id, text): (&[u8], &[u8]),
        out: &mut Emit<Self::Key, Vec<u8>, S>,
    ) -> Result<()> {
        out.emit((id, SIDE), text)
    }
}

/// Gets the name of an id first, then its visits.
#[derive(Clone, Default)]
struct Join {
    name: Option<Vec<u8>>,
}

impl Reducer for Join {
    type Key = (Vec<u8>, u8);
    type Value = Vec<u8>;

    fn reduce(
        &mut self,
        _: (std::borrow::Cow<'_, [u8]>, u8),
        values: &mut Values<'_, Self::Key, Vec<u8>>,
        out: &mut Output,
    ) -> Result<()> {
        self.name = None;
        while let Some(text) = values.next_value()? {
            let text = text.to_vec();
            // The key of the value just read: its second element changes within the group.
            match (values.current_key()?.1, &self.name) {
                (USER, _) => self.name = Some(text),
                (_, Some(name)) => out.write(name, text)?,
                (_, None) => out.write_to("strangers", (), text)?,
            }
        }
        Ok(())
    }
}

fn reduce_side(users: &str, visits: &str, output: &str) -> Plan {
    let job = Job::new("join-reduce")
        .input(from_files([users], TABS))
        .map(Tag::<USER>)
        .also(from_files([visits], TABS), Tag::<VISIT>)
        .group_by_first()
        .reduce(Join::default())
        .output(text_out(output));
    job.into()
}

/// Looks each visitor up.
#[derive(Clone)]
struct LookUp {
    file: String,
    names: Arc<HashMap<Vec<u8>, Vec<u8>>>,
}

impl Mapper for LookUp {
    type In = KeyValueLines;
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn setup(&mut self, context: &Context) -> Result<()> {
        let text = fs::read(context.side_file(&self.file)?)?;
        let rows = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            Some((line[..tab].to_vec(), line[tab + 1..].to_vec()))
        });
        self.names = Arc::new(rows.collect());
        Ok(())
    }

    fn map<S: Sink>(
        &mut self,
        (id, page): (&[u8], &[u8]),
        out: &mut Emit<Vec<u8>, Vec<u8>, S>,
    ) -> Result<()> {
        match self.names.get(id) {
            Some(name) => out.emit(name, page),
            None => {
                out.counter("Join", "strangers").increment();
                Ok(())
            }
        }
    }
}

fn broadcast(users: &str, visits: &str, output: &str) -> Plan {
    let file = users.rsplit('/').next().unwrap_or(users).to_owned();
    let job = Job::new("join-broadcast")
        .input(from_files([visits], TABS))
        .map(LookUp { file, names: Arc::default() })
        .output(text_out(output));
    job.into()
}

/// Reduces of the two sorting jobs: the same number, so that their parts hold the same ids.
const PARTS: u32 = 4;

/// Sorts an input by id.
fn sort(name: &str, path: &str) -> CompleteJob {
    Job::new(name)
        .input(from_files([path], TABS))
        .map(map_fn::<KeyValueLines, Vec<u8>, Vec<u8>, _>(|(id, text), out| out.emit(id, text)))
        .reduce(reduce_fn::<Vec<u8>, Vec<u8>, _>(|id, values, out| {
            while let Some(text) = values.next_value()? {
                out.write(id, text)?;
            }
            Ok(())
        }))
        .reducers(PARTS)
        .output(intermediate())
}

/// Reads a part of the visits, and beside it the same part of the users.
#[derive(Clone)]
struct SideBySide {
    users: JobOutput,
}

impl Mapper for SideBySide {
    type In = Uncut<KeyValueLines>;
    type Key = Vec<u8>;
    type Value = Vec<u8>;

    fn run<S: Sink>(
        &mut self,
        visits: Records<'_, Uncut<KeyValueLines>>,
        out: &mut Emit<Vec<u8>, Vec<u8>, S>,
    ) -> Result<()> {
        let context = out.context().clone();
        let input = context.input().ok_or("a map has an input")?;
        let part = input.path.rsplit('/').next().unwrap_or_default();
        let users = format!("{}/{part}", context.output_of(self.users)?);
        let mut users = SortedFile::open(&context, &users)?;
        visits.for_each(|(id, page)| users.values(id)?.try_for_each(|name| out.emit(name, page)))
    }

    fn map<S: Sink>(&mut self, _: (&[u8], &[u8]), _: &mut Emit<Vec<u8>, Vec<u8>, S>) -> Result<()> {
        Ok(())
    }
}

fn merge(users: &str, visits: &str, output: &str) -> Plan {
    let mut plan = Plan::new();
    let users = plan.add(sort("users-by-id", users));
    let visits = plan.add(sort("visits-by-id", visits));
    let job = Job::new("join-merge")
        .input(output_of([visits], Uncut(TABS)))
        .map(SideBySide { users })
        .output(text_out(output));
    plan.add_after(job, [users]);
    plan
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    #[test]
    fn all_joins_agree() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        fs::write(path("users"), "1\tada\n2\tbob\n3\tcyd\n").unwrap();
        fs::write(path("visits"), "2\t/b\n1\t/a\n2\t/c\n9\t/x\n").unwrap();
        let runner = LocalRunner::new().reducers(1);
        runner.run(reduce_side(&path("users"), &path("visits"), &path("reduce"))).unwrap();
        let text = fs::read_to_string(path("reduce/part-r-00000")).unwrap();
        assert_eq!(text, "ada\t/a\nbob\t/b\nbob\t/c\n");
        let strangers = fs::read_to_string(path("reduce/strangers-r-00000")).unwrap();
        assert_eq!(strangers, "/x\n");

        let job = broadcast(&path("users"), &path("visits"), &path("map"));
        runner.side_file(&path("users")).unwrap().run(job).unwrap();
        let text = fs::read_to_string(path("map/part-m-00000")).unwrap();
        assert_eq!(text, "bob\t/b\nada\t/a\nbob\t/c\n");

        LocalRunner::new().run(merge(&path("users"), &path("visits"), &path("merge"))).unwrap();
        let part = |number| fs::read_to_string(path(&format!("merge/part-m-{number:05}"))).unwrap();
        let merged: String = (0..PARTS).map(part).collect();
        let mut lines: Vec<&str> = merged.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["ada\t/a", "bob\t/b", "bob\t/c"]);
    }
}
