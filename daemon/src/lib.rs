//! What every daemon is made of: configuration, secret, log, the HTTP service with its limits, shutdown.
//!
//! | module | |
//! |---|---|
//! | [`config`] | a typed struct from a TOML file and `HANNO_…` variables; an unknown key names the nearest known one |
//! | [`secret`] | the cluster secret: made at the first start, mode 0600 |
//! | [`access`] | whose each route is, and who asks |
//! | [`audit`] | lines of who did what, on disk |
//! | [`auth`] | checks who signed a request, for whom, and signs the answer; reads the body of what was let in, within a budget and a time |
//! | [`carried`] | work that goes on though its caller hangs up |
//! | [`groups`] | groups of users, remembered for a while |
//! | [`rpc`] | routes that carry signed messages |
//! | [`serve`] | the accept loop: limits on connections, headers, time; drains on shutdown. In it [`guests`] and [`line`](mod@line): who may keep a connection, and who makes room; [`descriptors`]: how many files and sockets there may be |
//! | [`shutdown`] | one token that ends everything |
//! | [`metrics`] | figures for monitors |
//! | [`inspect`] | configuration and log levels for operators |
//! | [`beans`] | `/jmx` for what was built around Hadoop |
//! | [`page`] | frame, style, script and protective headers of the pages |
//! | [`front`] [`hosts`] | what every request must be like before a route sees it; names under which a daemon may be reached |
//! | [`session`] | who is signed in at the pages, and which requests of theirs may change something |
//! | [`log`] | structured lines on standard error |

pub mod access;
pub mod audit;
pub mod auth;
pub mod beans;
pub mod carried;
pub mod config;
pub mod error;
pub mod front;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod groups;
pub mod hosts;
pub mod inspect;
pub mod log;
pub mod metrics;
pub mod page;
pub mod rpc;
pub mod secret;
pub mod serve;
pub mod session;
pub mod shutdown;

pub use error::{ConfigError, ServeError};
pub use serve::{descriptors, guests, line};
pub use shutdown::Shutdown;
