//! The core joined to a modelled JobTracker, network, runners and disk, with a hand-driven clock and seeded faults.
//!
//! Laws checked at every step (`laws`): no runner has two attempts and no attempt two runners; no more attempts run than there are slots;
//! an attempt that is being stopped has a runner that was asked to end, and such a runner gets nothing more; an effect names only what was
//! ordered and is there; ends are reported in their order until they are confirmed, each as something that really happened, and no other
//! end of the same attempt follows; what the core remembers is bounded by what it was ordered. At the end: nothing is remembered, and a
//! worker that stops ends its runners.

mod jobtracker;
mod laws;
mod machine;
mod random;
mod scenes;
mod world;

pub(super) use self::machine::rules;
