//! The walls around tasks: what a task can reach (`sandbox`) and as which user (`users`), what it may use (`confinement`), and measurements
//! of what it does use (`watch`).

mod confinement;
mod sandbox;
mod users;
mod watch;

pub(crate) use confinement::Confinement;
pub(crate) use sandbox::Sandbox;
pub use sandbox::Wall;
pub(crate) use users::{Lease, Users};
pub(crate) use watch::{Leaving, Seen, Watch, Watched};
