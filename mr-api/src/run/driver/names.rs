//! What the paths of a plan mean on the cluster.

use std::collections::BTreeMap;

use mr_model::{Error, Result};
use protocol::DfsPath;
use protocol::address::Site;

use crate::run::address::{self, Location};

/// Translates the paths of a plan.
pub(super) struct Names {
    pub(super) site: Site,
    pub(super) user: String,
    /// Inputs of this machine, and where they are staged.
    pub(super) inputs: BTreeMap<String, DfsPath>,
    /// The same for outputs.
    pub(super) outputs: BTreeMap<String, DfsPath>,
}

impl Names {
    pub(super) fn inputs(&self, paths: &[String]) -> Result<Vec<DfsPath>> {
        paths.iter().map(|path| self.find(&self.inputs, path)).collect()
    }

    pub(super) fn output(&self, path: &str) -> Result<DfsPath> {
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
