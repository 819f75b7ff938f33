//! Workers: their slots and pending orders ([`table`]), how many leave at once ([`answer`]), the slots to offer ([`free_slots`]), their reports
//! ([`tracker`]), the map outputs they hold ([`map_outputs`]), what they say of tasks of rounds ([`rounds`]), what failed there lately
//! ([`recent`]), and the ones to avoid ([`blacklist`]).

mod answer;
mod blacklist;
mod free_slots;
mod map_outputs;
mod recent;
mod rounds;
mod table;
mod tracker;

pub(crate) use self::blacklist::parse_names;
pub(crate) use self::free_slots::FreeSlots;
pub(crate) use self::map_outputs::MapOutputs;
pub(crate) use self::recent::Lately;
#[cfg(test)]
pub(crate) use self::table::DEAF_MAX;
pub(crate) use self::table::{Liveness, Worker, Workers};
