//! Who may use the machine: tests with clusters run beside each other, but one that measures has it to itself.
//!
//! Whoever has a cluster already may start another while somebody waits to measure: otherwise both would wait for ever.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

static ROOM: Mutex<Room> = Mutex::new(Room { seated: Vec::new(), measuring: None });
static CHANGED: Condvar = Condvar::new();

struct Room {
    /// The tests that have clusters, by their threads, once for each cluster.
    seated: Vec<ThreadId>,
    /// The test that measures or waits to.
    measuring: Option<ThreadId>,
}

/// A cluster's place.
pub(crate) struct Seat(ThreadId);

/// The machine for a test alone.
pub(crate) struct Alone(());

/// Waits for a place for a cluster.
pub(crate) fn sit() -> Seat {
    let me = thread::current().id();
    let mut room = wait_while(|room| {
        room.measuring.is_some_and(|other| other != me) && !room.seated.contains(&me)
    });
    room.seated.push(me);
    Seat(me)
}

/// Waits until no other test has a cluster; none gets one until this goes.
pub(crate) fn alone() -> Alone {
    let me = thread::current().id();
    wait_while(|room| room.measuring.is_some()).measuring = Some(me);
    drop(wait_while(|room| room.seated.iter().any(|seated| *seated != me)));
    Alone(())
}

fn wait_while(condition: impl Fn(&Room) -> bool) -> MutexGuard<'static, Room> {
    let room = ROOM.lock().unwrap_or_else(PoisonError::into_inner);
    CHANGED.wait_while(room, |room| condition(room)).unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut room = wait_while(|_| false);
        if let Some(place) = room.seated.iter().position(|seated| *seated == self.0) {
            room.seated.swap_remove(place);
        }
        CHANGED.notify_all();
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        wait_while(|_| false).measuring = None;
        CHANGED.notify_all();
    }
}
