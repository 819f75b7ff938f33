//! What the author of a job sets besides its types.

use std::sync::Arc;

use protocol::property::Properties;

use super::paths::{JobInput, OutputPath};
use super::sampler::Sampler;
use super::side_file::SideFile;
use crate::map::Partition;
use crate::task::OutputOptions;

/// How many reduce tasks a job has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reducers {
    /// As many as the maps' output calls for, counted when all maps are done. Up to the number of slots there is one for every 64 MiB;
    /// beyond that there are more only to keep each below 1 GiB, where the keys can be divided that far. Partitioners see more partitions
    /// than there will be reduces; one reduce takes neighbouring partitions together, in the order of all their keys.
    Auto,
    /// Exactly this many, unless the command line says otherwise; with 0 the maps' pairs are the output.
    Exactly(u32),
    /// Exactly this many, whatever the command line says: another number would make the result wrong.
    Always(u32),
}

impl Reducers {
    /// How many, where `wanted` is what the command line says; `None` if that is left to the engine.
    pub fn number(self, wanted: Option<u32>) -> Option<u32> {
        match self {
            Reducers::Always(count) => Some(count),
            Reducers::Exactly(count) => Some(wanted.unwrap_or(count)),
            Reducers::Auto => wanted,
        }
    }
}

/// So many reduces, whatever the command line says: for a job whose result one reduce has to see as a whole. See [`Reducers::Always`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Always(pub u32);

impl From<Always> for Reducers {
    fn from(Always(count): Always) -> Self {
        Reducers::Always(count)
    }
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

/// A job's settings besides its types.
#[derive(Clone)]
pub struct JobSettings {
    /// For people.
    pub name: String,
    /// What it reads.
    pub inputs: Vec<JobInput>,
    /// Where it writes.
    pub output: OutputPath,
    /// How it writes.
    pub output_options: OutputOptions,
    /// Files for each task.
    pub side_files: Vec<SideFile>,
    /// Properties of the author's, under their present names; those of the command line win.
    pub properties: Properties,
    /// What driver and task runner must agree on besides types, one item a line.
    pub description: String,
    /// How many reduces.
    pub reducers: Reducers,
    /// Which reduce gets a key.
    pub partition: Partition,
    /// The part of the key that groups, if that is not all of it.
    pub group_prefix: Option<shuffle::GroupPrefix>,
    /// Finds the key ranges of the reduces, if they are in total order.
    pub sampler: Option<Arc<dyn Sampler>>,
}

impl JobSettings {
    /// Adds a line to what driver and task runner must agree on.
    pub fn describe(&mut self, line: &str) {
        self.description.push_str(line);
        self.description.push('\n');
    }

    pub(crate) fn set_output(&mut self, path: OutputPath, options: OutputOptions) {
        (self.output, self.output_options) = (path, options);
    }
}
