//! Places that owners hold for a while, within their [`Shares`].
//!
//! Where an owner would have to be refused, and another one has more than it would have then, that one gives up a place: the one on which nothing has moved for
//! longest, of those that can end. So a crowd that holds places and does nothing makes room for whoever comes; two owners that have the same displace
//! nobody.
//!
//! `Places` is the state machine; [`Room`] shares it between threads and tasks, and gives a [`Place`] back when it is dropped.
//!
//! Invariant: a place that was asked to end is not counted any more. What it uses until it has ended is bounded elsewhere: by connections, or threads.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::{Full, Shares};

/// Who holds a place.
pub trait Tenant {
    /// True if it can be asked to end.
    fn may_leave(&self) -> bool;
    /// Asks it to end.
    fn leave(&self);
}

/// A tenant that holds its place until it is done.
impl Tenant for () {
    fn may_leave(&self) -> bool {
        false
    }

    fn leave(&self) {}
}

/// A tenant that waits for two things at once, its work and its end.
#[derive(Debug, Default)]
pub struct Notified(Notify);

impl Notified {
    /// Waits until it is asked to end.
    pub async fn is_over(&self) {
        self.0.notified().await;
    }
}

impl Tenant for Notified {
    fn may_leave(&self) -> bool {
        true
    }

    fn leave(&self) {
        self.0.notify_one();
    }
}

/// A place, as its holder and the accounting share it.
#[derive(Debug)]
struct Slot<T> {
    /// When something moved on it last, in milliseconds of the room.
    moved_ms: AtomicU64,
    tenant: T,
}

/// A place that is held.
#[derive(Debug)]
struct Held<T> {
    amount: usize,
    slot: Arc<Slot<T>>,
}

/// Which places are held.
#[derive(Debug)]
struct Places<O, T> {
    shares: Shares<O>,
    next: u64,
    /// By owner and number.
    held: HashMap<O, BTreeMap<u64, Held<T>>>,
}

impl<O: Clone + Eq + Hash, T: Tenant> Places<O, T> {
    fn new(max: usize, part: usize) -> Self {
        Places { shares: Shares::new(max, part), next: 0, held: HashMap::new() }
    }

    fn enter(&mut self, owner: &O, amount: usize, slot: &Arc<Slot<T>>) -> Result<u64, Full> {
        self.take(owner, amount)?;
        let number = self.next;
        self.next += 1;
        self.held
            .entry(owner.clone())
            .or_default()
            .insert(number, Held { amount, slot: Arc::clone(slot) });
        Ok(number)
    }

    fn displace(&mut self, owner: &O, amount: usize, slot: &Arc<Slot<T>>) -> Result<u64, Full> {
        loop {
            let full = match self.enter(owner, amount, slot) {
                Ok(number) => return Ok(number),
                Err(full) => full,
            };
            let own = self.stillest(owner).ok_or(full)?;
            self.end(owner, own);
        }
    }

    fn grow(&mut self, owner: &O, number: u64, more: usize) -> Result<(), Full> {
        if !self.held.get(owner).is_some_and(|held| held.contains_key(&number)) {
            return Err(Full::Ended);
        }
        // Only places of others are taken back for it.
        self.take(owner, more)?;
        if let Some(place) = self.held.get_mut(owner).and_then(|it| it.get_mut(&number)) {
            place.amount += more;
        }
        Ok(())
    }

    /// Ends a place; one that was taken back before is not there.
    fn leave(&mut self, owner: &O, number: u64) -> Option<Arc<Slot<T>>> {
        let held = self.held.get_mut(owner)?;
        let Held { amount, slot } = held.remove(&number)?;
        if held.is_empty() {
            self.held.remove(owner);
        }
        self.shares.give_back(owner, amount);
        Some(slot)
    }

    /// Takes room for an owner, if need be from those who have more.
    fn take(&mut self, owner: &O, amount: usize) -> Result<(), Full> {
        loop {
            let Err(full) = self.shares.take(owner, amount) else { return Ok(()) };
            let has = self.shares.of(owner).saturating_add(amount);
            let mut others: Vec<_> = self.shares.above(has).collect();
            others.sort_unstable_by_key(|(_, has)| std::cmp::Reverse(*has));
            let stillest = others
                .into_iter()
                .find_map(|(other, _)| self.stillest(other).map(|number| (other.clone(), number)));
            let Some((other, number)) = stillest else { return Err(full) };
            self.end(&other, number);
        }
    }

    /// The place of an owner on which nothing has moved for longest.
    fn stillest(&self, owner: &O) -> Option<u64> {
        let held = self.held.get(owner)?.iter();
        let may_leave = held.filter(|(_, it)| it.amount > 0 && it.slot.tenant.may_leave());
        let moved =
            may_leave.map(|(number, it)| (it.slot.moved_ms.load(Ordering::Relaxed), *number));
        moved.min().map(|(_, number)| number)
    }

    fn end(&mut self, owner: &O, number: u64) {
        if let Some(slot) = self.leave(owner, number) {
            slot.tenant.leave();
        }
    }
}

/// Places for several threads or tasks.
#[derive(Debug)]
pub struct Room<O, T = ()> {
    begun: Instant,
    places: Mutex<Places<O, T>>,
    /// Something was given back.
    left: Notify,
}

impl<O: Clone + Eq + Hash, T: Tenant> Room<O, T> {
    /// A room of `max`, of which an owner gets at most `part` times what it leaves to others.
    pub fn new(max: usize, part: usize) -> Arc<Self> {
        let places = Mutex::new(Places::new(max, part));
        Arc::new(Room { begun: Instant::now(), places, left: Notify::new() })
    }

    /// The most that one owner gets where nobody else has anything.
    pub fn alone(&self) -> usize {
        self.places.lock().shares.alone()
    }

    /// What is taken.
    pub fn taken(&self) -> usize {
        self.places.lock().shares.taken()
    }

    /// A place for `owner`.
    ///
    /// # Errors
    /// [`Full`].
    pub fn enter(
        self: &Arc<Self>,
        owner: O,
        amount: usize,
        tenant: T,
    ) -> Result<Place<O, T>, Full> {
        let slot = self.slot(tenant);
        let number = self.places.lock().enter(&owner, amount, &slot)?;
        Ok(self.place(owner, number, slot))
    }

    /// A place for `owner`; where it has as many as it may have, the stillest of its own ends.
    ///
    /// # Errors
    /// [`Full`].
    pub fn displace(
        self: &Arc<Self>,
        owner: O,
        amount: usize,
        tenant: T,
    ) -> Result<Place<O, T>, Full> {
        let slot = self.slot(tenant);
        let number = self.places.lock().displace(&owner, amount, &slot)?;
        Ok(self.place(owner, number, slot))
    }

    /// A place for `owner` as soon as there is one. The caller limits the time.
    pub async fn wait(self: &Arc<Self>, owner: O, amount: usize, tenant: T) -> Place<O, T> {
        let slot = self.slot(tenant);
        let enter = || self.places.lock().enter(&owner, amount, &slot);
        let number = self.retry(enter).await;
        self.place(owner, number, slot)
    }

    fn place(self: &Arc<Self>, owner: O, number: u64, slot: Arc<Slot<T>>) -> Place<O, T> {
        Place { room: Arc::clone(self), owner, number, slot }
    }

    fn slot(&self, tenant: T) -> Arc<Slot<T>> {
        Arc::new(Slot { moved_ms: AtomicU64::new(self.now_ms()), tenant })
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Tries, and again whenever something was given back. Mostly there is room at once.
    async fn retry<R>(&self, mut attempt: impl FnMut() -> Result<R, Full>) -> R {
        if let Ok(done) = attempt() {
            return done;
        }
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            // From here on, what is given back is noticed.
            left.as_mut().enable();
            match attempt() {
                Ok(done) => return done,
                Err(_) => left.await,
            }
        }
    }
}

/// A place that counts until this is dropped, or it is taken back.
#[derive(Debug)]
pub struct Place<O: Clone + Eq + Hash, T: Tenant = ()> {
    room: Arc<Room<O, T>>,
    owner: O,
    number: u64,
    slot: Arc<Slot<T>>,
}

impl<O: Clone + Eq + Hash, T: Tenant> Place<O, T> {
    /// Who holds it.
    pub fn tenant(&self) -> &T {
        &self.slot.tenant
    }

    /// Notes that something moves.
    pub fn stir(&self) {
        self.slot.moved_ms.store(self.room.now_ms(), Ordering::Relaxed);
    }

    /// Takes more.
    ///
    /// # Errors
    /// [`Full`].
    pub fn grow(&self, more: usize) -> Result<(), Full> {
        self.room.places.lock().grow(&self.owner, self.number, more)
    }

    /// Takes more as soon as there is as much; `false` if the place was taken back. The caller limits the time.
    pub async fn wait_to_grow(&self, more: usize) -> bool {
        let grow = || match self.grow(more) {
            Ok(()) => Ok(true),
            Err(Full::Ended) => Ok(false),
            Err(full) => Err(full),
        };
        self.room.retry(grow).await
    }
}

impl<O: Clone + Eq + Hash, T: Tenant> Drop for Place<O, T> {
    fn drop(&mut self) {
        self.room.places.lock().leave(&self.owner, self.number);
        self.room.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;
    use crate::shares::PART;

    #[derive(Debug, Default)]
    struct Caller {
        is_fixed: bool,
        has_left: AtomicBool,
    }

    impl Tenant for Caller {
        fn may_leave(&self) -> bool {
            !self.is_fixed
        }

        fn leave(&self) {
            self.has_left.store(true, Ordering::Relaxed);
        }
    }

    type Entered = (u8, u64, Arc<Slot<Caller>>);

    fn slot(is_fixed: bool, moved_ms: u64) -> Arc<Slot<Caller>> {
        let tenant = Caller { is_fixed, ..Caller::default() };
        Arc::new(Slot { moved_ms: AtomicU64::new(moved_ms), tenant })
    }

    fn enter(places: &mut Places<u8, Caller>, owner: u8, moved_ms: u64) -> Result<Entered, Full> {
        let slot = slot(false, moved_ms);
        places.enter(&owner, 1, &slot).map(|number| (owner, number, slot))
    }

    fn has_left(held: &Entered) -> bool {
        held.2.tenant.has_left.load(Ordering::Relaxed)
    }

    fn fill(places: &mut Places<u8, Caller>, owner: u8) -> Vec<Entered> {
        let moved = |at: u64| (at * 7) % 16;
        (0..).map_while(|at| enter(places, owner, moved(at)).ok()).collect()
    }

    #[test]
    fn whoever_has_most_gives_up_what_has_been_still_for_longest() {
        let mut places = Places::new(16, PART);
        let crowd = fill(&mut places, 1);
        assert_eq!(crowd.len(), 12);
        let others: Vec<Entered> =
            (2..40).map_while(|owner| enter(&mut places, owner, 0).ok()).collect();
        // All have one in the end, and none displaces another who has no more.
        assert_eq!(others.len(), 15);
        assert!(!others.iter().any(has_left));
        let kept: Vec<&Entered> = crowd.iter().filter(|held| !has_left(held)).collect();
        let latest = |held: &Entered| held.2.moved_ms.load(Ordering::Relaxed);
        assert_eq!(kept.len(), 1);
        assert!(crowd.iter().all(|held| latest(held) <= latest(kept[0])));
        assert_eq!(enter(&mut places, 1, 0).unwrap_err(), Full::Own);
        assert_eq!(enter(&mut places, 99, 0).unwrap_err(), Full::All);
    }

    #[test]
    fn two_who_ask_for_all_get_the_same_and_leave_room() {
        let mut places = Places::new(256, PART);
        let first = fill(&mut places, 1);
        let second = fill(&mut places, 2);
        let first = first.iter().filter(|held| !has_left(held)).count();
        let second = second.iter().filter(|held| !has_left(held)).count();
        assert!(first.abs_diff(second) <= 1 && first + second < 256 - 32, "{first} and {second}");
        // Nobody of them gets more from the other.
        assert!(enter(&mut places, 1, 0).is_err() || enter(&mut places, 2, 0).is_err());
    }

    #[test]
    fn what_cannot_end_is_not_asked_to() {
        let mut places = Places::new(4, PART);
        let fixed = slot(true, 0);
        for _ in 0..3 {
            places.enter(&1, 1, &fixed).unwrap();
        }
        let other = enter(&mut places, 2, 0).unwrap();
        assert_eq!(enter(&mut places, 3, 0).unwrap_err(), Full::All);
        assert!(!has_left(&other) && !fixed.tenant.has_left.load(Ordering::Relaxed));
    }

    #[test]
    fn a_place_that_was_taken_back_does_not_grow_and_is_left_once() {
        let mut places = Places::new(100, PART);
        let (large, small) = (slot(false, 0), slot(false, 0));
        let number = places.enter(&1, 40, &large).unwrap();
        places.grow(&1, number, 35).unwrap();
        assert_eq!(places.grow(&1, number, 1), Err(Full::Own));
        places.enter(&2, 25, &small).unwrap();
        assert!(!large.tenant.has_left.load(Ordering::Relaxed));
        places.enter(&3, 30, &small).unwrap();
        assert!(large.tenant.has_left.load(Ordering::Relaxed));
        assert_eq!(places.grow(&1, number, 1), Err(Full::Ended));
        assert!(places.leave(&1, number).is_none());
        assert_eq!((places.shares.taken(), places.shares.of(&1)), (55, 0));
    }

    #[tokio::test]
    async fn whoever_waits_gets_what_is_left() {
        let room = Room::<u8>::new(4, PART);
        let mut held: Vec<_> = (0..3).map(|_| room.enter(1, 1, ()).unwrap()).collect();
        assert_eq!(room.enter(1, 1, ()).map(drop), Err(Full::Own));
        let last = room.enter(2, 1, ()).unwrap();
        let waiting = room.wait(3, 1, ());
        tokio::pin!(waiting);
        let soon = Duration::from_millis(1);
        assert!(tokio::time::timeout(soon, waiting.as_mut()).await.is_err());
        held.pop();
        let third = waiting.await;
        assert_eq!(room.taken(), 4);
        drop((held, last, third));
        assert_eq!(room.taken(), 0);
    }

    #[tokio::test]
    async fn an_owner_can_give_up_its_own() {
        let room = Room::new(4, PART);
        let crowd: Vec<_> =
            (0..20).map(|_| room.displace(1, 1, Notified::default()).unwrap()).collect();
        assert_eq!(room.taken(), 3);
        let other = room.displace(2, 1, Notified::default()).unwrap();
        for ended in &crowd[..17] {
            ended.tenant().is_over().await;
        }
        assert!(other.grow(0).is_ok());
        assert_eq!(crowd[0].grow(1), Err(Full::Ended));
        assert!(!crowd[0].wait_to_grow(1).await);
        drop(crowd);
        assert_eq!(room.taken(), 1);
    }
}
