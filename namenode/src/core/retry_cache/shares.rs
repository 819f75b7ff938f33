//! How much room is used by whom: whoever uses much is refused more before anybody else is.
//!
//! Invariant: a user may have at most [`GREED`] times what is free. So one alone gets four fifths of the room, two get four ninths each, and there is always
//! some left for those who have little.

use std::sync::Arc;

use hashbrown::HashMap;

/// How many times as much as is free a user may have.
const GREED: usize = 4;
/// Bytes that a user costs beside the name, in maps and queues.
const ACCOUNT_BYTES: usize = 384;

/// See the module.
pub(super) struct Shares {
    /// Bytes that there are.
    room: usize,
    /// Bytes that are used.
    used: usize,
    by_user: HashMap<Arc<str>, Account>,
    accounts: Vec<Holding>,
    unused: Vec<Account>,
}

/// Names a user as long as something of theirs is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Account(u32);

struct Holding {
    user: Arc<str>,
    used: usize,
}

impl Account {
    /// Of what came from the disk, which does not tell whose it is.
    pub(super) const UNKNOWN: Account = Account(0);

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// The account with this index.
    pub(super) fn of(index: usize) -> Account {
        Account(u32::try_from(index).expect("each account costs some room"))
    }
}

impl Shares {
    pub(super) fn new(room: usize) -> Self {
        let unknown = Holding { user: Arc::from(""), used: 0 };
        let by_user = HashMap::new();
        Shares { room, used: 0, by_user, accounts: vec![unknown], unused: Vec::new() }
    }

    /// Whether there is room for more of this user.
    pub(super) fn admit(&self, user: &str) -> bool {
        self.by_user.get(user).map_or(self.used < self.room, |account| !self.is_greedy(*account))
    }

    /// Whether a user has more than is admitted.
    pub(super) fn is_greedy(&self, account: Account) -> bool {
        let free = self.room.saturating_sub(self.used);
        free == 0 || self.accounts[account.index()].used / GREED > free
    }

    /// True if more is used than there is.
    pub(super) fn is_over(&self) -> bool {
        self.used > self.room
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The account of a user.
    pub(super) fn open(&mut self, user: &str) -> Account {
        if let Some(account) = self.by_user.get(user) {
            return *account;
        }
        let user: Arc<str> = Arc::from(user);
        self.used += ACCOUNT_BYTES + user.len();
        let holding = Holding { user: Arc::clone(&user), used: 0 };
        let account = match self.unused.pop() {
            Some(account) => {
                self.accounts[account.index()] = holding;
                account
            }
            None => {
                self.accounts.push(holding);
                Account::of(self.accounts.len() - 1)
            }
        };
        self.by_user.insert(user, account);
        account
    }

    pub(super) fn charge(&mut self, account: Account, bytes: usize) {
        self.used += bytes;
        self.accounts[account.index()].used += bytes;
    }

    /// Takes back what was charged. An account of which nothing is left is closed.
    pub(super) fn refund(&mut self, account: Account, bytes: usize) {
        self.used -= bytes;
        let holding = &mut self.accounts[account.index()];
        holding.used -= bytes;
        if holding.used == 0 && account != Account::UNKNOWN {
            let user = std::mem::replace(&mut holding.user, Arc::from(""));
            self.used -= ACCOUNT_BYTES + user.len();
            self.by_user.remove(&user);
            self.unused.push(account);
        }
    }

    /// How many accounts there were at once.
    pub(super) fn accounts_max(&self) -> usize {
        self.accounts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 1_000_000;

    fn fill(shares: &mut Shares, user: &str) -> usize {
        let mut used = 0;
        while shares.admit(user) {
            let account = shares.open(user);
            shares.charge(account, 1000);
            used += 1000;
        }
        used
    }

    #[test]
    fn however_much_the_greedy_take_there_is_room_for_those_who_have_little() {
        let mut shares = Shares::new(ROOM);
        let first = fill(&mut shares, "greedy");
        assert!((790_000..810_000).contains(&first), "{first}");
        let second = fill(&mut shares, "other");
        assert!((150_000..170_000).contains(&second), "{second}");
        assert!(shares.admit("ann") && !shares.admit("greedy") && !shares.admit("other"));
        let greedy = shares.open("greedy");
        shares.refund(greedy, first);
        assert!(shares.admit("other") && shares.admit("greedy"));
        let other = shares.open("other");
        shares.refund(other, second);
        assert_eq!((shares.used(), shares.by_user.len()), (0, 0), "closed accounts cost nothing");
    }

    #[test]
    fn many_users_do_not_use_more_than_there_is() {
        let mut shares = Shares::new(ROOM);
        for number in 0..10_000 {
            fill(&mut shares, &format!("user{number}"));
        }
        assert!(shares.used() < ROOM + 2000, "{}", shares.used());
        shares.charge(Account::UNKNOWN, ROOM);
        assert!(shares.is_over() && !shares.admit("ann"));
    }
}
