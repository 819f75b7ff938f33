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
    pub(in crate::run) inputs: BTreeMap<String, Vec<DfsPath>>,
    /// Outputs of this machine, and where they are staged.
    pub(in crate::run) outputs: BTreeMap<String, DfsPath>,
}

impl Names {
    pub(in crate::run) fn inputs(&self, paths: &[String]) -> Result<Vec<DfsPath>> {
        let mut all = Vec::new();
        for path in paths {
            match self.inputs.get(path) {
                Some(staged) => all.extend_from_slice(staged),
                None => all.push(self.of_cluster(path)?),
            }
        }
        Ok(all)
    }

    pub(in crate::run) fn output(&self, path: &str) -> Result<DfsPath> {
        self.outputs.get(path).map_or_else(|| self.of_cluster(path), |staged| Ok(staged.clone()))
    }

    fn of_cluster(&self, path: &str) -> Result<DfsPath> {
        match address::locate(&self.site, &self.user, path)? {
            Location::Cluster(path) => Ok(path),
            Location::Machine(_) => Err(Error::NotOfCluster { path: path.to_owned() }.into()),
        }
    }
}
