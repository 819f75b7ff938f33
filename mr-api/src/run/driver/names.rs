//! What the paths of a plan mean on the cluster.

use std::collections::BTreeMap;

use mr_model::{Error, Result};
use protocol::DfsPath;
use protocol::address::Site;

use crate::run::address::{self, Location};

/// Translates the paths of a plan.
pub(in crate::run) struct Names {
    pub(in crate::run) site: Site,
    pub(in crate::run) user: String,
    /// Inputs of this machine, and where they are staged.
    pub(in crate::run) inputs: BTreeMap<String, DfsPath>,
    /// The same for outputs.
    pub(in crate::run) outputs: BTreeMap<String, DfsPath>,
}

impl Names {
    pub(in crate::run) fn inputs(&self, paths: &[String]) -> Result<Vec<DfsPath>> {
        paths.iter().map(|path| self.find(&self.inputs, path)).collect()
    }

    pub(in crate::run) fn output(&self, path: &str) -> Result<DfsPath> {
        self.find(&self.outputs, path)
    }

    fn find(&self, staged: &BTreeMap<String, DfsPath>, path: &str) -> Result<DfsPath> {
        if let Some(place) = staged.get(path) {
            return Ok(place.clone());
        }
        match address::locate(&self.site, &self.user, path)? {
            Location::Cluster(path) => Ok(path),
            Location::Machine(_) => Err(Error::NotOfCluster { path: path.to_owned() }.into()),
        }
    }
}
