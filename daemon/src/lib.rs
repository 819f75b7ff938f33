//! The parts of every daemon: configuration, secret, log, the HTTP service with its limits, shutdown.
//!
//! | module | |
//! |---|---|
//! | [`config`] | a typed struct from a TOML file and `HANNO_…` variables; an unknown key names the nearest known one |
//! | [`secret`] | the cluster secret: created at the first start, mode 0600 |
//! | [`access`] | the audience of each route, and who sent a request |
//! | [`audit`] | lines on disk of who did what |
//! | [`auth`] | checks who signed a request, for whom, and signs the answer; reads the body of an accepted request, within a budget and a time limit |
//! | [`shares`] | a counted room that several owners share: none takes all of it |
//! | [`shield`] | work that continues if its caller hangs up |
//! | [`groups`] | groups of users, cached for a while |
//! | [`rpc`] | routes for signed messages |
//! | [`serve`] | the accept loop: limits on connections, headers, time; drains on shutdown. In it [`guests`] and [`line`](mod@line): who may keep a connection, and who makes room; [`descriptors`]: how many files and sockets there may be |
//! | [`shutdown`] | one token that ends everything |
//! | [`supervisor`] | tells systemd that a daemon is ready, and that its main loop turns |
//! | [`metrics`] | figures for monitors |
//! | [`inspect`] | configuration and log levels for operators |
//! | [`beans`] | `/jmx` for tools built around Hadoop |
//! | [`params`] | the parameters of requests: one strict reader for every route |
//! | [`page`] | frame, style, script and protective headers of the pages |
//! | [`front`] [`hosts`] | checks on every request before a route gets it; names under which clients may reach a daemon |
//! | [`session`] | who is signed in at the pages, and which of their requests may change something |
//! | [`log`] | structured lines on standard error |

pub mod access;
pub mod audit;
pub mod auth;
pub mod beans;
pub mod config;
pub mod error;
pub mod front;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod groups;
pub mod hosts;
pub mod inspect;
pub mod last_hour;
pub mod log;
pub mod metrics;
pub mod page;
pub mod params;
pub mod rpc;
pub mod secret;
pub mod serve;
pub mod session;
pub mod shares;
pub mod shield;
pub mod shutdown;
pub mod supervisor;

pub use error::{ConfigError, ServeError};
pub use serve::{descriptors, guests, line};
pub use shutdown::Shutdown;
