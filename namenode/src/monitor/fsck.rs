//! `/fsck`: what `hanno fsck` prints, as plain text, for those who ask over HTTP as Hadoop's tool does.
//!
//! The same program checks the files, as a process of its own that calls this NameNode for the user who asks; it ends when the client
//! hangs up. Repairs are only made for the holder of the cluster secret, since a page in a browser could ask for them as well.

use std::process::Stdio;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::config::{NAMENODE_VARIABLE, SECRET_FILE_VARIABLE};
use daemon::auth::Authenticator;
use daemon::rpc;
use futures_util::stream;
use protocol::address::url_of;
use protocol::auth::Role;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use webhdfs::query::Query;

use crate::config::Config;

/// Checks at once: each walks over the whole namespace. Further ones are refused and can be tried again later.
const CHECKS_MAX: usize = 4;
/// Bytes of a piece of the answer.
const PIECE_BYTES: usize = 64 << 10;
/// Name of the environment variable that says who calls.
const USER_VARIABLE: &str = "HADOOP_USER_NAME";
/// Parameters that are switches, and the options that they stand for.
const SWITCHES: [(&str, &str); 11] = [
    ("files", "-files"),
    ("blocks", "-blocks"),
    ("locations", "-locations"),
    ("racks", "-racks"),
    ("replicadetails", "-replicaDetails"),
    ("openforwrite", "-openforwrite"),
    ("listcorruptfileblocks", "-list-corruptfileblocks"),
    ("includesnapshots", "-includeSnapshots"),
    ("storagepolicies", "-storagepolicies"),
    ("move", "-move"),
    ("delete", "-delete"),
];
/// Those that change something.
const REPAIRS: [&str; 2] = ["move", "delete"];

/// What the route needs.
#[derive(Clone)]
pub(super) struct Fsck {
    auth: Authenticator,
    /// Whether names are believed.
    believes: bool,
    namenode: String,
    config: Arc<Config>,
    turns: Arc<Semaphore>,
}

impl Fsck {
    pub(super) fn new(auth: Authenticator, config: Arc<Config>, address: &str) -> Self {
        let believes = config.webhdfs.auth == webhdfs::Auth::Simple;
        let turns = Arc::new(Semaphore::new(CHECKS_MAX));
        Fsck { auth, believes, namenode: url_of(address), config, turns }
    }
}

/// Answers `GET /fsck?ugi=USER&path=PATH&files=1…`.
pub(super) async fn fsck(State(fsck): State<Fsck>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let signed = rpc::check(&fsck.auth, &parts, &[Role::Client]);
    let repairs = REPAIRS.iter().any(|name| query.text(name).is_some());
    match signed {
        Err(error) if !fsck.believes => return rpc::refuse(error),
        Err(_) if repairs => {
            let text = "repairs are made by `hanno fsck`, which signs what it asks\n";
            return (StatusCode::FORBIDDEN, text).into_response();
        }
        _ => {}
    }
    let user = query.text("ugi").or_else(|| query.text("user.name"));
    let user = user.unwrap_or(webhdfs::identity::STATIC_USER);
    if !webhdfs::identity::is_user(user) {
        return (StatusCode::BAD_REQUEST, "ugi is no name of a user\n").into_response();
    }
    let Ok(turn) = Arc::clone(&fsck.turns).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "other checks are running\n").into_response();
    };
    let Ok(program) = std::env::current_exe() else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "this program is gone\n").into_response();
    };
    let child = Command::new(program)
        .arg("fsck")
        .args(arguments(&query))
        .env(NAMENODE_VARIABLE, &fsck.namenode)
        .env(SECRET_FILE_VARIABLE, fsck.config.secret_path())
        .env(USER_VARIABLE, user)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    match child {
        Ok(child) => report(child, turn),
        Err(error) => {
            tracing::warn!(%error, "cannot start a check of files");
            (StatusCode::INTERNAL_SERVER_ERROR, "a check cannot be started\n").into_response()
        }
    }
}

/// The path, then the options that the parameters stand for: before it `-files` would be the generic option of that name, which
/// takes a list. A path is absolute, so it is never taken for an option.
fn arguments(query: &Query) -> Vec<String> {
    if let Some(ids) = query.text("blockid") {
        let ids = ids.split_whitespace().filter(|id| !id.starts_with('-')).map(str::to_owned);
        return std::iter::once("-blockId".to_owned()).chain(ids).collect();
    }
    let path = query.text("path").unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let switches = SWITCHES.iter().filter(|(name, _)| query.text(name).is_some());
    std::iter::once(path).chain(switches.map(|(_, option)| (*option).to_owned())).collect()
}

/// What the child prints, as it prints it.
fn report(mut child: Child, turn: OwnedSemaphorePermit) -> Response {
    let output = child.stdout.take();
    let pieces = stream::try_unfold((child, output, turn), |(child, output, turn)| async {
        let Some(mut output) = output else { return Ok(None) };
        let mut piece = vec![0; PIECE_BYTES];
        let count = output.read(&mut piece).await?;
        if count == 0 {
            return Ok::<_, std::io::Error>(None);
        }
        piece.truncate(count);
        Ok(Some((Bytes::from(piece), (child, Some(output), turn))))
    });
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(pieces)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_options_and_a_path_stays_one() {
        for (query, expected) in [
            ("", &["/"][..]),
            ("path=%2Fa+b&files=1&blocks=1", &["/a b", "-files", "-blocks"]),
            ("path=-delete&racks=1&files=", &["/-delete", "-racks"]),
            ("blockId=blk_1+-delete+blk_2&files=1", &["-blockId", "blk_1", "blk_2"]),
        ] {
            assert_eq!(arguments(&Query::parse(query)), expected, "{query}");
        }
    }
}
