//! Where files are: the cluster, this machine, or another cluster over WebHDFS, behind one set of operations ([`Files`]).
//!
//! Invariant: an operation names the path that failed; nothing here retries, as tasks are tried again by the JobTracker.

mod cluster;
#[cfg(test)]
pub(crate) mod double;
mod files;
mod location;
mod machine;
mod rights;
mod web;

use std::sync::Arc;

use client::dfs::DfsClient;
use protocol::address::{secure_url_of, url_of};

use crate::error::{Error, PlaceError};

use files::Outcome;

pub(crate) use files::{Checksum, Creation, Files, NewFile, Status, Tokens, Writer};
pub(crate) use location::{Location, Place};
pub(crate) use web::tokens_of_environment;

/// Everything that a copy reaches.
#[derive(Clone)]
pub(crate) struct Places {
    cluster: Option<DfsClient>,
    user: String,
    tokens: Arc<Tokens>,
    creation: Creation,
}

impl Places {
    pub(crate) fn new(
        cluster: Option<DfsClient>,
        user: String,
        tokens: Tokens,
        creation: Creation,
    ) -> Self {
        Places { cluster, user, tokens: Arc::new(tokens), creation }
    }

    /// The file system of a place.
    pub(crate) fn files(&self, place: &Place) -> Outcome<Arc<dyn Files>> {
        Ok(match (place, &self.cluster) {
            (Place::Machine, _) => Arc::new(machine::Machine(self.creation)),
            (Place::Cluster { .. }, Some(dfs)) => {
                Arc::new(cluster::Cluster(dfs.clone(), self.creation))
            }
            (Place::Cluster { .. }, None) => {
                return Err(PlaceError::Lacks { what: "configured cluster" });
            }
            (Place::Web { authority, is_encrypted }, _) => {
                let token = self.tokens.get(authority).cloned();
                let base = match is_encrypted {
                    true => secure_url_of(authority),
                    false => url_of(authority),
                };
                Arc::new(web::Web::new(&base, &self.user, token, self.creation))
            }
        })
    }
}

/// An operation on a file that failed.
pub(crate) fn file<'a>(
    what: &'static str,
    at: &'a Location,
) -> impl FnOnce(PlaceError) -> Error + 'a {
    move |source| Error::File { what, path: at.to_string(), source }
}
