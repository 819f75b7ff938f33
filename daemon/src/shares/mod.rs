//! A counted room that several owners share, so that no owner takes all of it.
//!
//! An owner may have at most `part` times what is then left to the others; one who has nothing yet may take whatever is left. With `part` 3 one owner alone
//! gets three quarters of the room, a second one three quarters of the rest, and so on: whoever comes for the first time finds room, however much those before
//! ask for. [`Shares`] counts. [`room`] is for places that somebody holds for a while, and takes some back from whoever has most.
//!
//! Invariants: what is taken is never more than `max`; an owner has more than one take only while it has at most `part` times what is left at its last take;
//! memory is that of the owners who have something.

pub mod room;

use std::collections::HashMap;
use std::hash::Hash;

/// An owner alone gets this many times what it leaves to others: three quarters.
pub const PART: usize = 3;

/// Why nothing was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Full {
    /// The owner has as much as it may have beside what others have.
    Own,
    /// So much is not left.
    All,
    /// The place was taken back.
    Ended,
}

/// How much of a room is taken, and by whom.
#[derive(Debug)]
pub struct Shares<O> {
    max: usize,
    part: usize,
    taken: usize,
    owners: HashMap<O, usize>,
}

impl<O: Clone + Eq + Hash> Shares<O> {
    /// A room of `max`, of which an owner gets at most `part` times what it leaves to others.
    pub fn new(max: usize, part: usize) -> Self {
        Shares { max, part: part.max(1), taken: 0, owners: HashMap::new() }
    }

    /// The most that one owner gets where nobody else has anything.
    pub fn alone(&self) -> usize {
        (self.max - self.max.div_ceil(self.part + 1)).max(self.max.min(1))
    }

    /// What is left.
    pub fn left(&self) -> usize {
        self.max - self.taken
    }

    /// What is taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// What an owner has.
    pub fn of(&self, owner: &O) -> usize {
        self.owners.get(owner).copied().unwrap_or(0)
    }

    /// Takes `amount` for `owner`.
    ///
    /// # Errors
    /// [`Full`]; nothing was taken.
    pub fn take(&mut self, owner: &O, amount: usize) -> Result<(), Full> {
        if amount == 0 {
            return Ok(());
        }
        let has = self.of(owner);
        let left = self.left().checked_sub(amount);
        match left {
            Some(left) if has == 0 || has + amount <= self.part.saturating_mul(left) => {}
            None if has == 0 => return Err(Full::All),
            _ => return Err(Full::Own),
        }
        self.taken += amount;
        self.owners.insert(owner.clone(), has + amount);
        Ok(())
    }

    /// Gives back what `owner` took; no more than it has.
    pub fn give_back(&mut self, owner: &O, amount: usize) {
        let Some(has) = self.owners.get_mut(owner) else { return };
        let amount = amount.min(*has);
        *has -= amount;
        self.taken -= amount;
        if *has == 0 {
            self.owners.remove(owner);
        }
    }

    /// Forgets everything that was taken.
    pub fn clear(&mut self) {
        self.taken = 0;
        self.owners.clear();
    }

    /// Those who have more than so much.
    fn above(&self, amount: usize) -> impl Iterator<Item = (&O, usize)> {
        self.owners.iter().map(|(owner, has)| (owner, *has)).filter(move |(_, has)| *has > amount)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fill(shares: &mut Shares<u8>, owner: u8) -> usize {
        std::iter::repeat_with(|| shares.take(&owner, 1)).take_while(Result::is_ok).count()
    }

    #[test]
    fn whoever_comes_first_leaves_room_for_the_next() {
        for (max, part, counts) in [
            (256, 3, &[192, 48, 12, 3, 1][..]),
            (4, 3, &[3, 1]),
            (16, 1, &[8, 4, 2, 1, 1]),
            (1, 3, &[1]),
        ] {
            let mut shares = Shares::new(max, part);
            assert_eq!(shares.alone(), counts[0]);
            let owners = (0..).take(counts.len());
            let got: Vec<usize> = owners.map(|owner| fill(&mut shares, owner)).collect();
            assert_eq!((got.as_slice(), shares.left()), (counts, 0), "{max} by {part}");
            assert_eq!(shares.take(&100, 1), Err(Full::All));
            assert_eq!(shares.take(&0, 1), Err(Full::Own));
        }
    }

    #[test]
    fn what_is_given_back_is_there_for_others_and_no_more_than_that() {
        let mut shares = Shares::new(8, 3);
        assert_eq!((fill(&mut shares, 1), fill(&mut shares, 2)), (6, 1));
        shares.give_back(&1, 5);
        assert_eq!((shares.left(), shares.of(&1), shares.of(&2)), (6, 1, 1));
        for owner in [1, 3] {
            shares.give_back(&owner, 100);
        }
        assert_eq!((shares.left(), shares.of(&1)), (7, 0));
        assert_eq!(shares.above(0).collect::<Vec<_>>(), [(&2, 1)]);
        shares.clear();
        assert_eq!((shares.left(), shares.taken()), (8, 0));
        assert_eq!(shares.take(&1, 9), Err(Full::All));
    }

    proptest! {
        #[test]
        fn nobody_has_more_than_is_there_and_none_has_all_who_came_twice(
            steps in proptest::collection::vec((0_u8..5, 1_usize..20, any::<bool>()), 1..200),
            max in 1_usize..100,
            part in 1_usize..5,
        ) {
            let mut shares = Shares::new(max, part);
            for (owner, amount, takes) in steps {
                if takes {
                    let before = shares.of(&owner);
                    if shares.take(&owner, amount).is_ok() && before > 0 {
                        prop_assert!(shares.of(&owner) <= part * shares.left());
                        prop_assert!(shares.of(&owner) <= shares.alone());
                    }
                } else {
                    shares.give_back(&owner, amount);
                }
                let sum: usize = (0..5).map(|owner| shares.of(&owner)).sum();
                prop_assert_eq!(sum, shares.taken());
                prop_assert!(sum <= max);
            }
        }
    }
}
