//! `/fsck`: what `hanno fsck` prints, as plain text, for those who ask over HTTP as Hadoop's tool does.
//!
//! The same program checks the files, as a process of its own that calls this NameNode for the user who asks; it ends when the client
//! hangs up. Repairs are only made for the holder of the cluster secret, since a page in a browser could ask for them as well.

use std::net::IpAddr;
use std::process::Stdio;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::config::{NAMENODE_VARIABLE, SECRET_FILE_VARIABLE};
use daemon::auth::Authenticator;
use daemon::params::{self, BadParameter, Ear};
use daemon::rpc;
use daemon::serve::Peer;
use daemon::shares::PART;
use daemon::shares::room::{Place, Room};
use futures_util::stream;
use protocol::address::url_of;
use protocol::auth::Role;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use webhdfs::query::Query;

use crate::config::Config;

/// Checks at once: each walks over the whole namespace. Further ones are refused and can be tried again later. One user alone gets three of them.
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
/// The parameter with names of blocks.
const BLOCKS: &str = "blockid";
/// Parameters that are no switches.
const OTHERS: [&str; 4] = ["ugi", "user.name", "path", BLOCKS];
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
    turns: Arc<Room<Owner>>,
}

/// To whom a check counts: a name that nobody proved says nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Owner {
    User(String),
    Address(Option<IpAddr>),
}

impl Fsck {
    pub(super) fn new(auth: Authenticator, config: Arc<Config>, address: &str) -> Self {
        let believes = config.webhdfs.auth == webhdfs::Auth::Simple;
        let turns = Room::new(CHECKS_MAX, PART);
        Fsck { auth, believes, namenode: url_of(address), config, turns }
    }
}

/// Answers `GET /fsck?ugi=USER&path=PATH&files=1…`.
pub(super) async fn fsck(State(fsck): State<Fsck>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let bad = |text: String| (StatusCode::BAD_REQUEST, format!("{text}\n")).into_response();
    let query = match Query::of(&parts.uri) {
        Ok(query) => query,
        Err(error) => return bad(error.message),
    };
    let signed = rpc::check(&fsck.auth, &parts, &[Role::Client]);
    let repairs = REPAIRS.iter().any(|name| query.text(name).is_some());
    match &signed {
        Err(error) if !fsck.believes => return rpc::refuse(*error),
        Err(_) if repairs => {
            let text = "repairs are made by `hanno fsck`, which signs what it asks\n";
            return (StatusCode::FORBIDDEN, text).into_response();
        }
        _ => {}
    }
    let user = query.text("ugi").or_else(|| query.text("user.name"));
    let user = user.unwrap_or(webhdfs::identity::STATIC_USER);
    if !webhdfs::identity::is_user(user) {
        return bad("ugi is no name of a user".to_owned());
    }
    match judge(&query) {
        Ok(warning) => Ear::judged(&parts.extensions, warning),
        Err(text) => return bad(text),
    }
    let owner = match signed {
        Ok(_) => Owner::User(user.to_owned()),
        Err(_) => Owner::Address(parts.extensions.get::<Peer>().map(|peer| peer.address.ip())),
    };
    let Ok(turn) = fsck.turns.enter(owner, 1, ()) else {
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

/// Checks all parameters. Returns the text for the header `Warning`, if something is ignored.
fn judge(query: &Query) -> Result<Option<String>, String> {
    let switches = || SWITCHES.iter().map(|(name, _)| *name);
    for name in switches() {
        // As Hadoop's tool sends it. A switch counts because it is there, so a 0 would be taken for a 1.
        if let Some(value) = query.text(name).filter(|value| !["1", "true"].contains(value)) {
            return Err(params::bad_value(name, value, "1, or leave it out").to_string());
        }
    }
    if let Some(id) = block_ids(query).find(|id| id.starts_with('-')) {
        return Err(params::bad_value("blockId", id, "names of blocks with spaces").to_string());
    }
    let known = || switches().chain(OTHERS);
    let unknown: Vec<&str> =
        query.names().filter(|name| known().all(|known| known != *name)).collect();
    if let Some((given, meant)) =
        unknown.iter().find_map(|name| Some((*name, params::meant(name, known())?)))
    {
        let (given, meant) = (given.escape_debug().to_string(), meant.to_owned());
        return Err(BadParameter::Mistyped { given, meant }.to_string());
    }
    let has_blocks = query.text(BLOCKS).is_some();
    let beside = query.names().filter(|name| {
        has_blocks && (*name == "path" || SWITCHES.iter().any(|(switch, _)| switch == name))
    });
    let reasons = [
        params::listed(unknown).map(|names| format!("fsck has not: {names}")),
        params::listed(beside).map(|names| format!("blockId counts alone, without: {names}")),
        params::listed(query.contradicted())
            .map(|names| format!("the first value counts of: {names}")),
    ];
    Ok(params::ignored(&reasons.into_iter().flatten().collect::<Vec<_>>()))
}

fn block_ids(query: &Query) -> impl Iterator<Item = &str> {
    query.text(BLOCKS).unwrap_or_default().split_whitespace()
}

/// The path, then the options that the parameters stand for: before it `-files` would be the generic option of that name, which
/// takes a list. A path is absolute, so it is never taken for an option.
fn arguments(query: &Query) -> Vec<String> {
    if query.text(BLOCKS).is_some() {
        let ids = block_ids(query).map(str::to_owned);
        return std::iter::once("-blockId".to_owned()).chain(ids).collect();
    }
    let path = query.text("path").unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let switches = SWITCHES.iter().filter(|(name, _)| query.text(name).is_some());
    std::iter::once(path).chain(switches.map(|(_, option)| (*option).to_owned())).collect()
}

/// What the child prints, as it prints it.
fn report(mut child: Child, turn: Place<Owner>) -> Response {
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
            ("blockId=blk_1+blk_2", &["-blockId", "blk_1", "blk_2"]),
        ] {
            assert_eq!(judge(&Query::parse(query).unwrap()), Ok(None), "{query}");
            assert_eq!(arguments(&Query::parse(query).unwrap()), expected, "{query}");
        }
    }

    #[test]
    fn what_is_not_done_is_refused_or_told() {
        for (query, text) in [
            ("blockId=blk_1+-delete", "\"blockId\" is \"-delete\""),
            ("delete=0", "\"delete\" is \"0\"; allowed is 1"),
            ("files=false", "\"files\" is \"false\""),
            ("blcoks=1", "did you mean \"blocks\"?"),
        ] {
            let refused = judge(&Query::parse(query).unwrap()).unwrap_err();
            assert!(refused.contains(text), "{query}: {refused}");
        }
        for (query, text) in [
            ("upgradedomains=1&path=%2Fa", "fsck has not: upgradedomains"),
            ("blockId=blk_1&files=1&ugi=ann", "blockId counts alone, without: files"),
            ("path=%2Fa&path=%2Fb", "the first value counts of: path, path"),
        ] {
            let told = judge(&Query::parse(query).unwrap()).unwrap().unwrap();
            assert!(told.contains(text.trim_end_matches(", path")), "{query}: {told}");
        }
    }
}
