//! Answers of calls that changed nothing: refusals, and calls without effect.
//!
//! A repeat that comes after the answer was lost could as well be judged again. One that is *late* could not: its caller has the answer of another try, and has
//! gone on. Judged again, it might do now what it was refused. So these answers are kept as long as a try can be under way. They are not journalled: no try
//! outlives the connections of the process.
//!
//! Whoever has too many loses the oldest of their own; nobody else loses any.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::shares::{Account, Shares};
use crate::core::edit::{CallKey, Outcome};

/// How long an answer is kept at least: a client tries for 60 s, and its last try may be under way for 60 s more.
pub const HELD_MS: u64 = 2 * 60 * 1000;
/// Bytes of these answers. Enough for the refusals of thousands of callers; a program that is refused a hundred thousand times in two minutes repeats itself.
pub(super) const ROOM: usize = 64 << 20;
/// Bytes of an entry in map and queue, with what they have spare.
const ENTRY_BYTES: usize = 2 * size_of::<(CallKey, Outcome)>() + 2 * size_of::<Queued>();

/// See the module.
pub(super) struct Unchanged {
    answers: HashMap<CallKey, Outcome>,
    /// By account, the oldest first.
    queues: Vec<VecDeque<Queued>>,
    shares: Shares,
    /// Account whose old answers go next.
    swept: usize,
}

struct Queued {
    key: CallKey,
    at_ms: u64,
    bytes: usize,
}

impl Unchanged {
    pub(super) fn new(room: usize) -> Self {
        let (answers, shares) = (HashMap::new(), Shares::new(room));
        Unchanged { answers, queues: Vec::new(), shares, swept: 0 }
    }

    pub(super) fn answer(&self, key: &CallKey) -> Option<&Outcome> {
        self.answers.get(key)
    }

    pub(super) fn insert(&mut self, key: CallKey, user: &str, at_ms: u64, outcome: Outcome) {
        let bytes = ENTRY_BYTES
            + match &outcome {
                Outcome::Refused(error) => error.message.len(),
                Outcome::Path(path) => path.as_str().len(),
                _ => 0,
            };
        if self.answers.insert(key, outcome).is_some() {
            return;
        }
        let account = self.shares.open(user);
        self.shares.charge(account, bytes);
        self.queues.resize_with(self.shares.accounts_max(), VecDeque::new);
        self.queues[account.index()].push_back(Queued { key, at_ms, bytes });
        while self.shares.is_greedy(account) && self.drop_front(account) {}
        self.sweep(at_ms);
    }

    /// Drops what is too old of the next account.
    fn sweep(&mut self, now_ms: u64) {
        self.swept = (self.swept + 1) % self.queues.len();
        let account = Account::of(self.swept);
        while let Some(oldest) = self.queues[self.swept].front()
            && oldest.at_ms.saturating_add(HELD_MS) < now_ms
        {
            self.drop_front(account);
        }
    }

    /// Drops the oldest answer of an account; false if there is none.
    fn drop_front(&mut self, account: Account) -> bool {
        let queue = &mut self.queues[account.index()];
        let Some(Queued { key, bytes, .. }) = queue.pop_front() else { return false };
        if queue.is_empty() {
            // A user who is gone leaves nothing behind.
            *queue = VecDeque::new();
        }
        self.answers.remove(&key);
        self.shares.refund(account, bytes);
        true
    }

    pub(super) fn count(&self) -> usize {
        self.answers.len()
    }
}
