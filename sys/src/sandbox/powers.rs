//! Powers that a thread gives up for good.

use std::{io, thread};

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Calls `act` on a thread that ends with it, so that what it gives up is lost to no other.
pub(super) fn on_a_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("sandbox".to_owned()).spawn_scoped(scope, act)?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread of a sandbox panicked")))
    })
}

/// Takes away the way back to capabilities, by programs that bring some.
pub(super) fn drop_bounding_set() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            // Not known to this kernel; not ours to give up: who has none gets none either, as no program brings any.
            Ok(()) | Err(Errno::INVAL | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Takes away what lets root pass by the rights of others.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}
