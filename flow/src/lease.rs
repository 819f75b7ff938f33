//! When the leases of a client's open writers are renewed.

use std::time::Duration;

/// How often leases are renewed: three times within the soft limit of 60 s.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(20);

/// The open writers of a client, and whether somebody renews their leases.
///
/// ```text
/// idle ──hold──► renewing ──a writer is open after RENEW_INTERVAL: renew──► renewing
///   ▲                │
///   └── none is open ┘
/// ```
///
/// One renewal is for all files of the client. Whether a lease was lost in spite of it, the NameNode decides: it refuses the writer's next call.
#[derive(Debug, Default)]
pub struct Leases {
    writer_count: usize,
    is_renewing: bool,
}

impl Leases {
    /// Counts a writer. True if somebody must begin to ask [`Leases::is_due`] every [`RENEW_INTERVAL`].
    pub fn hold(&mut self) -> bool {
        self.writer_count += 1;
        !std::mem::replace(&mut self.is_renewing, true)
    }

    /// Nobody could begin: the next writer has it tried again.
    pub fn cannot_renew(&mut self) {
        self.is_renewing = false;
    }

    /// A writer was closed or dropped.
    pub fn release(&mut self) {
        self.writer_count -= 1;
    }

    /// After an interval: true if the leases are renewed now, false if nobody needs to ask any more.
    pub fn is_due(&mut self) -> bool {
        self.is_renewing = self.writer_count > 0;
        self.is_renewing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_renewed_while_writers_are_open() {
        let mut leases = Leases::default();
        assert!(leases.hold(), "the first writer has the renewal begun");
        assert!(!leases.hold(), "the second finds it begun");
        leases.release();
        assert!(leases.is_due());
        leases.release();
        // A writer that comes before the interval is over keeps the renewal going.
        assert!(!leases.hold() && leases.is_due());
        leases.release();
        assert!(!leases.is_due(), "no writer is left");
        assert!(leases.hold(), "it begins anew");
        leases.cannot_renew();
        assert!(leases.hold());
    }
}
