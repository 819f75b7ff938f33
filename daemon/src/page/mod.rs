//! The parts that the pages of all daemons share: the frame with its navigation, style and script, and protective headers.
//!
//! Pages are drawn on the server, and maud escapes every text. They are readable without script; `live.js` keeps them up to date while they are open.
//! Invariant: every page forbids inline script and content from elsewhere.

pub mod about;
mod assets;
pub mod format;
mod frame;
pub mod live;

pub use assets::assets;
pub use frame::{Action, Frame, Search, Site, action, alone, bar};
