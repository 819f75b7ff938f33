//! Workers: their slots and the orders on their way ([`table`]), the slots to be offered ([`free_slots`]), what they say ([`tracker`]), which map outputs they hold
//! ([`map_outputs`]), and which are avoided ([`blacklist`]).

mod blacklist;
mod free_slots;
mod map_outputs;
mod table;
mod tracker;

pub(crate) use self::blacklist::parse_names;
pub(crate) use self::free_slots::FreeSlots;
pub(crate) use self::map_outputs::MapOutputs;
#[cfg(test)]
pub(crate) use self::table::DEAF_MAX;
pub(crate) use self::table::{Liveness, Worker, Workers};
