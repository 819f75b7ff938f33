//! The pass of a task process ([`protocol::pass`]), which its worker renews while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use protocol::pass::Pass;

/// The current pass of a process. Clones share it.
#[derive(Clone, Debug)]
pub struct PassHolder(Arc<RwLock<Pass>>);

impl PassHolder {
    /// Holds `pass` until it is renewed.
    pub fn new(pass: Pass) -> Self {
        PassHolder(Arc::new(RwLock::new(pass)))
    }

    /// The current pass.
    pub fn pass(&self) -> Pass {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it.
    pub fn renew(&self, pass: Pass) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pass;
    }
}

#[cfg(test)]
mod tests {
    use protocol::JobId;
    use protocol::auth::Key;
    use protocol::pass::PassName;

    use super::*;

    #[test]
    fn a_holder_has_the_newest() {
        let pass = |expires_ms| {
            let job = JobId { cluster_start: 1, number: 1 };
            Pass::issue(&Key::new([7; 32]), PassName { job, user: "ada".to_owned(), expires_ms })
        };
        let holder = PassHolder::new(pass(1));
        let shared = holder.clone();
        holder.renew(pass(2));
        assert!(shared.pass() == pass(2));
    }
}
