//! The connections of a service: which may stay, and which must make room.
//!
//! A connection is a stranger's until something is proven on it. Strangers may have half of all connections; those from one other machine, or from one other
//! user of this machine, half of that. When there is no room for one more, the idle stranger that has been there longest ends. So a flood of connections
//! without requests displaces itself, and whoever sends a request at once gets an answer. Where all places are taken, whoever has most connections gives up
//! the oldest idle one, all strangers being one here: a token is no licence to keep others out. A service with local sockets reserves part of the connections
//! for root and for the user that it runs as.
//!
//! Invariant: a guest that was asked to leave is not counted any more; if it uses resources beyond its place, for example a thread, the service limits those
//! itself.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Strangers have at most one in this many of all connections.
const STRANGERS_PART: usize = 2;
/// Strangers from one other machine or user have at most one in this many of all connections.
const PEER_PART: usize = 4;

/// The peer of a connection, as far as it is known before anything is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Peer {
    /// Another machine.
    Machine(IpAddr),
    /// Somebody on this machine: on loopback everybody has the same address.
    Here,
    /// An ordinary user of this machine, on a local socket.
    User(u32),
    /// Root, or the user that this service runs as, on a local socket.
    Own,
}

impl Peer {
    /// The peer at a network address.
    pub fn at(address: IpAddr) -> Peer {
        match address.to_canonical() {
            address if address.is_loopback() => Peer::Here,
            address => Peer::Machine(address),
        }
    }

    /// The user on a local socket.
    pub fn user(number: u32) -> Peer {
        match number == 0 || number == sys::host::user_id() {
            true => Peer::Own,
            false => Peer::User(number),
        }
    }

    /// Whether it can be distinguished from others, and so has a limit of its own.
    fn is_one(self) -> bool {
        matches!(self, Peer::Machine(_) | Peer::User(_))
    }
}

/// A connection as the accounting of room sees it.
pub trait Guest {
    /// Somebody who can prove something.
    type Owner: Eq + Hash;
    /// Who has proven something on it; `None` on a stranger's.
    fn owner(&self) -> Option<&Self::Owner>;
    /// True if nothing on it would be lost that cannot be asked for again: no request is in progress that moves and ends.
    fn is_idle(&self) -> bool;
    /// Asks it to end.
    fn leave(&self);
}

/// All connections of a service, oldest first.
#[derive(Debug)]
pub struct Guests<G> {
    max: usize,
    /// Reserved for [`Peer::Own`].
    reserved: usize,
    all: Mutex<All<G>>,
}

#[derive(Debug)]
struct All<G> {
    next: u64,
    open: BTreeMap<u64, (Peer, Arc<G>)>,
    is_closed: bool,
}

impl<G: Guest> Guests<G> {
    /// Room for `max`, of which `reserved` are only for [`Peer::Own`].
    pub fn new(max: usize, reserved: usize) -> Arc<Self> {
        let all = All { next: 0, open: BTreeMap::new(), is_closed: false };
        Arc::new(Guests { max, reserved, all: Mutex::new(all) })
    }

    /// Admits a connection; `None` if there is no room that a stranger could have. Another connection may have to end for it.
    pub fn enter(self: &Arc<Self>, peer: Peer, guest: Arc<G>) -> Option<Entered<G>> {
        let mut all = self.all.lock();
        if all.is_closed {
            return None;
        }
        // Few connections are checked while there is room for all of them.
        if all.open.len() >= self.max / PEER_PART
            && let Some(crowd) = self.crowd(&all, peer)
        {
            let number = all.leaving(crowd, peer, self.reserved)?;
            if let Some((_, guest)) = all.open.remove(&number) {
                guest.leave();
            }
        }
        let number = all.next;
        all.next += 1;
        all.open.insert(number, (peer, Arc::clone(&guest)));
        Some(Entered { guests: Arc::clone(self), number, guest })
    }

    /// The group that has too many for one more of `peer`.
    fn crowd(&self, all: &All<G>, peer: Peer) -> Option<Crowd> {
        let strangers = || all.open.values().filter(|(_, guest)| guest.owner().is_none());
        let of_peer = || strangers().filter(|(other, _)| *other == peer).count();
        if peer.is_one() && of_peer() >= (self.max / PEER_PART).max(1) {
            return Some(Crowd::OfPeer);
        }
        let room = match peer {
            Peer::Own => self.max,
            _ => self.max - self.reserved,
        };
        if strangers().count() >= (self.max / STRANGERS_PART).max(1) {
            return Some(Crowd::Strangers);
        }
        (all.open.len() >= room).then_some(Crowd::All)
    }

    /// Asks an idle connection to leave, if there is one that can be spared: for one more when all places are taken.
    pub fn make_room(&self) {
        let all = self.all.lock();
        let leaving = all.leaving(Crowd::All, Peer::Own, self.reserved);
        if let Some((_, guest)) = leaving.and_then(|number| all.open.get(&number)) {
            guest.leave();
        }
    }

    /// Asks those strangers to leave whose time is over.
    pub fn end_strangers(&self, is_over: impl Fn(&G) -> bool) {
        let all = self.all.lock();
        let guests = all.open.values().map(|(_, guest)| guest);
        guests.filter(|guest| guest.owner().is_none() && is_over(guest)).for_each(|it| it.leave());
    }

    /// Asks all to leave, and admits none any more.
    pub fn close(&self) {
        let mut all = self.all.lock();
        all.is_closed = true;
        all.open.values().for_each(|(_, guest)| guest.leave());
    }
}

/// A group with too many connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Crowd {
    /// Strangers of one peer.
    OfPeer,
    /// All strangers together.
    Strangers,
    /// Everybody.
    All,
}

impl<G: Guest> All<G> {
    /// Who makes room in a crowd for one more of `peer`. What is `reserved` for [`Peer::Own`] is given to nobody else.
    fn leaving(&self, crowd: Crowd, peer: Peer, reserved: usize) -> Option<u64> {
        let own = self.open.values().filter(|(other, _)| *other == Peer::Own).count();
        let may_go = |other: Peer| match crowd {
            Crowd::OfPeer => other == peer,
            Crowd::Strangers | Crowd::All => {
                peer == Peer::Own || other != Peer::Own || own > reserved
            }
        };
        let mut idle = self
            .open
            .iter()
            .filter(|(_, (other, guest))| may_go(*other) && guest.is_idle())
            .map(|(number, (_, guest))| (*number, guest.owner()));
        if crowd != Crowd::All {
            return idle.find(|(_, owner)| owner.is_none()).map(|(number, _)| number);
        }
        let mut counts = HashMap::new();
        let owners = self.open.values().map(|(_, guest)| guest.owner());
        owners.for_each(|owner| *counts.entry(owner).or_insert(0_usize) += 1);
        let spare = idle.filter_map(|(number, owner)| {
            let count = counts.get(&owner).copied()?;
            // Somebody known who has a single connection keeps it.
            (owner.is_none() || count > 1).then_some((count, owner.is_none(), Reverse(number)))
        });
        spare.max().map(|(_, _, Reverse(number))| number)
    }
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub struct Entered<G> {
    guests: Arc<Guests<G>>,
    number: u64,
    /// The connection.
    pub guest: Arc<G>,
}

impl<G> Drop for Entered<G> {
    fn drop(&mut self) {
        self.guests.all.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Caller {
        owner: OnceLock<u8>,
        is_busy: AtomicBool,
        has_left: AtomicBool,
    }

    impl Guest for Caller {
        type Owner = u8;

        fn owner(&self) -> Option<&u8> {
            self.owner.get()
        }

        fn is_idle(&self) -> bool {
            !self.is_busy.load(Ordering::Relaxed)
        }

        fn leave(&self) {
            self.has_left.store(true, Ordering::Relaxed);
        }
    }

    type Stand = Arc<Guests<Caller>>;

    fn machine(number: u8) -> Peer {
        Peer::at([10, 0, 0, number].into())
    }

    fn enter(guests: &Stand, peer: Peer) -> Option<Entered<Caller>> {
        guests.enter(peer, Arc::default())
    }

    fn has_left(entered: &Entered<Caller>) -> bool {
        entered.guest.has_left.load(Ordering::Relaxed)
    }

    #[test]
    fn a_flood_displaces_itself() {
        for flooding in [machine(2), Peer::User(1001)] {
            let guests = Guests::new(16, 0);
            let trusted = enter(&guests, machine(1)).unwrap();
            trusted.guest.owner.set(1).unwrap();
            let busy = enter(&guests, machine(1)).unwrap();
            busy.guest.is_busy.store(true, Ordering::Relaxed);
            let waiting = enter(&guests, Peer::User(7)).unwrap();
            let flood: Vec<_> = (0..20).map(|_| enter(&guests, flooding).unwrap()).collect();
            assert_eq!(flood.iter().filter(|entered| !has_left(entered)).count(), 4);
            assert!(has_left(&flood[0]) && !has_left(&flood[19]));
            assert!(!has_left(&trusted) && !has_left(&busy) && !has_left(&waiting));
            let other = enter(&guests, machine(3)).unwrap();
            assert!(!has_left(&other));
            // When all of a peer's connections are busy, it gets no more.
            flood.iter().for_each(|entered| entered.guest.is_busy.store(true, Ordering::Relaxed));
            assert!(enter(&guests, flooding).is_none());
            drop(flood);
            assert!(enter(&guests, flooding).is_some());
        }
    }

    #[test]
    fn floods_that_cannot_be_told_apart_have_half_and_displace_each_other() {
        let guests = Guests::new(16, 0);
        let flood: Vec<_> = (0..20).map(|_| enter(&guests, Peer::Here).unwrap()).collect();
        assert_eq!(flood.iter().filter(|entered| !has_left(entered)).count(), 8);
        let other = enter(&guests, machine(3)).unwrap();
        assert!(!has_left(&other) && !has_left(&flood[19]));
    }

    #[test]
    fn whoever_has_most_makes_room_when_all_are_known() {
        let guests = Guests::new(8, 0);
        let known = |owner: u8| {
            let entered = enter(&guests, machine(owner))?;
            entered.guest.owner.set(owner).unwrap();
            Some(entered)
        };
        let first = known(1).unwrap();
        let crowd: Vec<_> = (0..7).map(|_| known(2).unwrap()).collect();
        crowd[0].guest.is_busy.store(true, Ordering::Relaxed);
        let others: Vec<_> = (3..8).map(|owner| known(owner).unwrap()).collect();
        assert!(!has_left(&crowd[0]) && crowd[1..6].iter().all(has_left) && !has_left(&crowd[6]));
        guests.make_room();
        assert!(has_left(&crowd[6]));
        drop(crowd);
        let eighth = known(8).unwrap();
        let ninth = known(9).unwrap();
        // All have one, and nobody gives it up.
        assert!(known(10).is_none());
        assert!(![&first, &eighth, &ninth].into_iter().chain(&others).any(has_left));
    }

    #[test]
    fn a_part_is_for_root_and_the_own_user() {
        let guests = Guests::new(16, 4);
        let others: Vec<_> = (0..12)
            .map(|number| {
                let entered = enter(&guests, machine(number)).unwrap();
                entered.guest.owner.set(number).unwrap();
                entered
            })
            .collect();
        assert!(enter(&guests, machine(20)).is_none() && enter(&guests, Peer::User(1)).is_none());
        let own: Vec<_> = (0..4).map(|_| enter(&guests, Peer::user(0)).unwrap()).collect();
        // Nobody else displaces them, however idle they are.
        assert!(enter(&guests, Peer::User(1)).is_none());
        assert!(!own.iter().any(has_left));
        let next = enter(&guests, Peer::Own).unwrap();
        assert!(has_left(&own[0]) && !has_left(&next));
        guests.close();
        assert!(others.iter().all(has_left) && enter(&guests, Peer::Own).is_none());
    }

    #[test]
    fn peers_are_told_apart_as_far_as_they_can_be() {
        assert_eq!(Peer::at([127, 0, 0, 9].into()), Peer::Here);
        let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        assert_eq!(Peer::at(mapped), machine(1));
        assert_eq!(Peer::user(0), Peer::Own);
        assert_eq!(Peer::user(sys::host::user_id()), Peer::Own);
        assert_eq!(Peer::user(sys::host::user_id() + 1), Peer::User(sys::host::user_id() + 1));
    }
}
