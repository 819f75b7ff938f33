//! A request as the core takes it: who asks, from where, and under which id. How it came here (version, encoding, signature) is its face's business.

use protocol::namenode::{By, Call};
use protocol::{CallId, RemoteError};

use super::rights::Caller;
use super::state::State;

/// See the module. The only way to make one binds the call to its user.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    id: CallId,
    /// Who calls.
    pub caller: Caller<'a>,
    /// Machine of the client; may be empty.
    pub host: &'a str,
}

impl<'a> Asked<'a> {
    /// A request that calls itself `call`, of a caller who was authenticated.
    pub fn new(call: CallId, caller: Caller<'a>, host: &'a str) -> Self {
        Asked { id: call.of(caller.user), caller, host }
    }

    /// The calling process of this user and the number of its call ([`CallId::of`]): a repeated change gets the first answer. Leases are in its name.
    pub fn id(&self) -> CallId {
        self.id
    }
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
