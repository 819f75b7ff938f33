//! What the author of a job settles besides its types.

use std::sync::Arc;

use super::paths::{JobInput, OutputPath};
use super::sampler::Sampler;
use super::side_file::SideFile;
use crate::map::Partition;
use crate::task::OutputOptions;

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

/// What a job is besides its types.
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
    pub(crate) fn set_output(&mut self, path: OutputPath, options: OutputOptions) {
        (self.output, self.output_options) = (path, options);
    }
}
