//! The one seam between Hanno and the operating system: files that become visible whole, files in directories that others may change, locks, maps, descriptors
//! between processes, facts about the host, the walls around a process.
//!
//! The only crate that may import `rustix`, `libc`, `memmap2`, `landlock` and `seccompiler`, and the only one with `unsafe` (in [`allocator`], [`map`], [`detach`],
//! [`environment`], [`clock`], [`signals`], [`socket`], [`streams`] and `cgroup::enter`, with its proofs).

pub mod allocator;
pub mod beneath;
pub mod broker;
pub mod cgroup;
pub mod clock;
pub mod descriptor;
pub mod detach;
pub mod disk;
pub mod environment;
pub mod family;
pub mod fs;
pub mod holding;
pub mod host;
pub mod machine;
pub mod map;
pub mod measure;
pub mod orphans;
pub mod process;
pub mod sandbox;
pub mod socket;
pub mod streams;
mod waiting;

pub use map::MappedFile;
pub use waiting::{pipe, poll, signals, wake};
