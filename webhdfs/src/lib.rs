//! WebHDFS: the file system over HTTP for the clients that people already have - `hadoop fs`, Spark, Python, OpenDAL, curl.
//!
//! | module | |
//! |---|---|
//! | [`op`] [`query`] `judge` [`path`] | pure: what a request says |
//! | [`json`] [`error`] | pure: what an answer says, in Hadoop's words |
//! | [`redirect`] | pure: which DataNode does the second step, and the URL for it |
//! | [`config`] [`identity`] [`cookie`] | who may call, and as whom |
//! | [`namenode`] | the NameNode's side: names and attributes, redirects for data |
//! | [`datanode`] | the DataNode's side: data |
//! | [`steps`] | what both sides read of a two-step operation |
//! | [`token`] | delegation tokens, and those of redirects |
//! | [`gateway`] | both sides on one address, for clients that cannot reach DataNodes |
//! | [`drain`] | unread bodies |
//!
//! A NameNode never touches data: OPEN, CREATE, APPEND and GETFILECHECKSUM are answered with the URL of a DataNode, before
//! anything of a body is read.

pub mod config;
pub mod cookie;
pub mod datanode;
pub mod drain;
pub mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod gateway;
pub mod identity;
pub mod json;
mod judge;
pub mod namenode;
pub mod op;
pub mod path;
pub mod query;
pub mod redirect;
pub mod steps;
pub mod token;

pub use config::{Auth, Config};
