//! The operator's commands as table rows, and the NameNode that they call.

use client::dfs::{DfsClient, DfsError};
use protocol::DfsPath;
use protocol::address::authority_of;
use protocol::namenode::{TypedCall, calls};

use crate::connect::{self, Overrides, file_system};
use crate::dfs::{Failure, Resolver};

/// One command.
pub(crate) struct Command {
    /// Without its dash.
    pub(crate) name: &'static str,
    /// Options and operands, for the usage line.
    pub(crate) arguments: &'static str,
    /// The text of `-help`.
    pub(crate) about: &'static str,
    /// Fewest and most words after the name.
    pub(crate) words: (usize, usize),
    /// Runs it.
    pub(crate) run: fn(&Session, &[String]) -> Result<(), Failure>,
}

/// No limit on words.
pub(crate) const MANY: usize = usize::MAX;

/// A NameNode after first contact.
pub(crate) struct Session {
    /// Its client.
    pub(crate) client: DfsClient,
    /// Paths as users type them.
    pub(crate) resolver: Resolver,
}

impl Session {
    /// Makes first contact.
    pub(crate) fn open(overrides: &Overrides) -> Result<Self, Failure> {
        let wrong = |error: anyhow::Error| Failure::Text(connect::describe(error.as_ref()));
        let client = overrides.config().and_then(|config| file_system(&config)).map_err(wrong)?;
        let resolver = Resolver::new(client.user(), client.site());
        Ok(Session { client, resolver })
    }

    /// Calls the NameNode; a refusal becomes its first line.
    pub(crate) fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, Failure> {
        self.client.ask(call).map_err(|error| refused(&error))
    }

    /// The paths, as typed, that an operand names; itself if it is not a pattern.
    pub(crate) fn directories(&self, operand: &str) -> Result<Vec<(String, DfsPath)>, Failure> {
        crate::dfs::expand(&self.client, &self.resolver, operand)
    }

    /// Refuses anyone but the superuser; for information that HDFS gives to nobody else.
    pub(crate) fn check_superuser(&self) -> Result<(), Failure> {
        self.ask(calls::CheckSuperuser)
    }

    /// `host:port` of the NameNode.
    pub(crate) fn authority(&self) -> &str {
        authority_of(self.client.namenode())
    }
}

/// A refusal in the NameNode's own words.
pub(crate) fn refused(error: &DfsError) -> Failure {
    let text = connect::describe(error);
    Failure::Text(text.lines().next().unwrap_or_default().to_owned())
}

/// An answer to something else.
pub(crate) fn unexpected() -> Failure {
    refused(&DfsError::Unexpected)
}
