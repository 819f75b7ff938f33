//! What a request of several calls may have in answers. Each call is as short as its answer may be long: without this, a request of a few kilobytes would cost
//! gigabytes.

use protocol::namenode::Answer;
use protocol::{ErrorKind, RemoteError};

use crate::error::refuse;

/// Bytes of encoded answers after which no further call of a request is made: those of a thousand files that were created, or of fifty full pages of long
/// names. In memory they are about three times as long.
pub const ANSWERS_BYTES_MAX: usize = 16 << 20;

/// What is left for the answers of a request.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { left: ANSWERS_BYTES_MAX }
    }
}

impl Budget {
    /// The answer to the next call if nothing is left for it: it was not made, and can be sent again with those behind it.
    pub(crate) fn refusal(&self) -> Option<RemoteError> {
        let text = "too much at once: the answers before this one are long, ask again from here";
        (self.left == 0).then(|| refuse(ErrorKind::Unavailable, text))
    }

    /// Counts an answer.
    pub(crate) fn note(&mut self, answer: &Answer) {
        self.left = self.left.saturating_sub(encoded_bytes(answer));
    }
}

fn encoded_bytes(answer: &Answer) -> usize {
    postcard::serialize_with_flavor(answer, postcard::ser_flavors::Size::default())
        .expect("answers are plain data: counting their bytes cannot fail")
}

#[cfg(test)]
mod tests {
    use protocol::namenode::Reply;

    use super::*;

    #[test]
    fn answers_count_as_they_are_encoded_until_nothing_is_left() {
        let long: Answer = Ok(Reply::Names(vec!["n".repeat(1 << 20)]));
        assert_eq!(encoded_bytes(&long), protocol::wire::encode(&long).len());
        let mut budget = Budget::default();
        let count = (0..100).take_while(|_| {
            let is_left = budget.refusal().is_none();
            budget.note(&long);
            is_left
        });
        assert_eq!(count.count(), 16);
        assert!(budget.refusal().is_some_and(|refusal| refusal.kind.is_transient()));
    }
}
