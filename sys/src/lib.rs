//! The one seam between Hanno and the operating system: files that become visible whole, locks, maps, descriptors between
//! processes, facts about the host.
//!
//! The only crate that may import `rustix` and `memmap2` and the only one with `unsafe` (in [`map`], with its proof).

pub mod descriptor;
pub mod family;
pub mod fs;
pub mod host;
pub mod map;
pub mod poll;
pub mod process;
pub mod socket;
pub mod wake;

pub use map::MappedFile;
