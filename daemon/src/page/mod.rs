//! What the pages of all daemons share: the frame with its navigation, style and script, and protective headers.
//!
//! Pages are drawn on the server; every text is escaped by maud. They read without script; `live.js` keeps them true while they are open.
//! Invariant: every page forbids inline script and content from elsewhere.

pub mod about;
mod assets;
pub mod format;
mod frame;
pub mod live;

pub use assets::assets;
pub use frame::{Action, Frame, Search, Site, action, alone, bar};
