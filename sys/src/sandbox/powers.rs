//! Privileges that a thread gives up for good.

use std::{io, thread};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Calls `act` on a thread that ends with it, so no other thread loses what it gives up.
pub(super) fn on_a_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, act)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of a sandbox panicked")))
    })
}

/// Prevents programs that bring capabilities from giving any back.
pub(super) fn drop_bounding_set() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Either this kernel does not know it, or it is not ours to drop: a process without capabilities gets none either, as no program brings any.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Drops the capabilities by which root overrides the permissions of others.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
