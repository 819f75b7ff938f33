//! Who signed a request, and the key that signs the answer.

use std::sync::Arc;

use protocol::JobId;
use protocol::auth::{AnswerSignature, BodyDigest, Nonce, ReadyKey, Role};
use protocol::pass::PassName;

/// Who signed a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signer {
    /// A holder of the cluster secret or of the key of a role; speaks for whomever it names.
    Trusted(Role),
    /// A task; speaks only for the user of its job.
    Task(PassName),
}

impl Signer {
    /// True if the signer may act as `user`.
    pub fn speaks_for(&self, user: &str) -> bool {
        match self {
            Signer::Trusted(_) => true,
            Signer::Task(name) => name.user == user,
        }
    }

    /// To whom its requests count.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Signer::Trusted(role) => Owner::Role(*role),
            Signer::Task(name) => Owner::Job(name.job),
        }
    }
}

/// To whom what a request takes counts, where there is room for a while: jobs do not stop each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Owner {
    /// Holders of the cluster secret or of the key of a role.
    Role(Role),
    /// The tasks of a job.
    Job(JobId),
}

/// A request whose head was accepted.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Who signed it.
    pub signer: Signer,
    /// Digest of the body that must follow.
    pub body: BodyDigest,
    /// Signs the answer.
    pub seal: Seal,
}

/// Signs the answer to one request.
#[derive(Clone, Debug)]
pub struct Seal {
    pub(super) key: Arc<ReadyKey>,
    pub(super) nonce: Nonce,
}

impl Seal {
    /// The header of the answer; `body` is `None` if it is streamed.
    pub fn header(&self, status: u16, body: Option<BodyDigest>) -> String {
        AnswerSignature::sign(&self.key, self.nonce, status, body).to_header()
    }
}
