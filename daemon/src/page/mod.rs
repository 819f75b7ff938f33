//! The parts that the pages of all daemons share: the frame with its navigation, style and script, and protective headers.
//!
//! Pages are drawn on the server, and maud escapes every text. They are readable without script. While they are open,
//! `live.js` keeps them up to date or says that it cannot, `patch.js` changes only what changed, `tables.js` sorts, and `actions.js` acts.
//! Invariant: every page forbids inline script and content from elsewhere.

pub mod about;
mod assets;
pub mod chart;
mod embedded;
pub mod format;
mod frame;
pub mod live;
pub mod node;
mod refusal;

pub use assets::assets;
pub use frame::{Action, Frame, Search, Site, action, alone, bar};
pub(crate) use refusal::{as_page, wants_page};
