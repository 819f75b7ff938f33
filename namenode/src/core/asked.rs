//! A request as the core takes it: who asks, from where, and under which id. How it came here (version, encoding, signature) is its face's business.

use protocol::namenode::{By, Call};
use protocol::{CallId, RemoteError};

use super::rights::Caller;
use super::state::State;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The calling process and the number of its call: a repeated change gets the first answer.
    pub id: CallId,
    /// Who calls.
    pub caller: Caller<'a>,
    /// Machine of the client; may be empty.
    pub host: &'a str,
}

impl State {
    /// Checks that the table of calls lets the caller make this call.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_by(&self, call: &Call, caller: Caller<'_>) -> Result<(), RemoteError> {
        match call.by() {
            By::Anyone => Ok(()),
            By::Superuser => self.guard(caller).check_superuser(),
        }
    }
}
