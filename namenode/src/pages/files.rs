//! `/api/v1` of the NameNode: the cluster, DataNodes and files for scripts; what the browser of files makes and deletes. `changes` has the rest.
//!
//! Everybody can read the state of the cluster, signed-in users can read files. Changes need a session and come from our own pages
//! ([`daemon::session`]); the permissions of the file system decide.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use daemon::params::{BadParameter, Given, Parameters, Params, bad_value};
use protocol::namenode::{DIRECTORY_MODE, LIST_ENTRIES_MAX, LocatedBlock, LocatedBlocks, calls};
use protocol::{ErrorKind, RemoteError};
use serde_json::{Value, json};

use super::context::{Found, Hand, Pages, changed_path, path_of, status_of};
use super::upload::upload;

/// A description of the API, for programs.
const OPENAPI: &str = include_str!("openapi.json");
/// Largest place in a file that WebHDFS takes.
const JAVA_LONG_MAX: u64 = i64::MAX.unsigned_abs();

/// What to read.
#[derive(Debug)]
struct Listed {
    path: String,
    /// The name after which the entries of a directory begin.
    after: String,
}

impl Parameters for Listed {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Listed { path: given.text_or_empty("path")?, after: given.text_or_empty("after")? })
    }
}

/// Bytes of a file.
#[derive(Debug)]
struct Content {
    path: String,
    range: [(&'static str, Option<u64>); 2],
}

impl Parameters for Content {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let number = |name| Ok((name, given.number(name, 0..=JAVA_LONG_MAX)?));
        let range = [number("offset")?, number("length")?];
        Ok(Content { path: given.text_or_empty("path")?, range })
    }
}

/// What to make.
#[derive(Debug)]
struct Made {
    path: String,
    is_directory: bool,
    overwrite: bool,
}

impl Parameters for Made {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let kind = given.choice("type", &[("file", false), ("directory", true)])?;
        let (path, overwrite) = (changed_path(given)?, given.flag("overwrite")?);
        let is_directory = kind.unwrap_or(false);
        if is_directory && overwrite {
            return Err(bad_value("overwrite", "true", "false for a directory"));
        }
        Ok(Made { path, is_directory, overwrite })
    }
}

/// What to delete.
#[derive(Debug)]
struct Deleted {
    path: String,
    recursive: bool,
}

impl Parameters for Deleted {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Deleted { path: changed_path(given)?, recursive: given.flag("recursive")? })
    }
}

/// Parameters whose refusal has the shape of this API.
pub(super) type Asked<T> = Result<Params<T>, BadParameter>;

pub(super) fn taken<T>(asked: Asked<T>) -> Result<T, RemoteError> {
    let Params(asked) =
        asked.map_err(|error| RemoteError::new(ErrorKind::InvalidArgument, error.to_string()))?;
    Ok(asked)
}

/// All routes.
pub(super) fn routes() -> Router<Pages> {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Router::new()
        .route("/api/v1/openapi.json", get(move || async move { (kind, OPENAPI) }))
        .route("/api/v1/cluster", get(cluster))
        .route("/api/v1/nodes", get(nodes))
        .route("/api/v1/files", get(read).put(make).delete(delete))
        .route("/api/v1/files/content", get(content))
}

pub(super) fn refused(error: &RemoteError) -> Response {
    (status_of(error), Json(json!({ "message": error.message }))).into_response()
}

async fn cluster(State(pages): State<Pages>) -> Response {
    match pages.web.query(calls::ClusterStatus).await {
        Ok(status) => Json(status).into_response(),
        Err(error) => refused(&error),
    }
}

async fn nodes(State(pages): State<Pages>) -> Response {
    match pages.web.query(calls::Datanodes).await {
        Ok(nodes) => Json(nodes).into_response(),
        Err(error) => refused(&error),
    }
}

async fn read(State(pages): State<Pages>, asked: Asked<Listed>, headers: HeaderMap) -> Response {
    let user = pages.user(&headers);
    match described(&pages, asked, user.as_deref()).await {
        Ok(value) => Json(value).into_response(),
        Err(error) => refused(&error),
    }
}

async fn described(
    pages: &Pages,
    asked: Asked<Listed>,
    user: Option<&str>,
) -> Result<Value, RemoteError> {
    let Listed { path, after } = taken(asked)?;
    let path = path_of(&path)?;
    Ok(match pages.find(user, &path, (&after, LIST_ENTRIES_MAX)).await? {
        Found::Directory { status, entries, remaining } => json!({
            "path": path, "status": status, "entries": entries, "remaining": remaining,
        }),
        Found::File(LocatedBlocks { status, blocks }) => {
            let blocks: Vec<Value> = blocks.iter().map(block).collect();
            json!({ "path": path, "status": status, "blocks": blocks })
        }
    })
}

/// A block without its token, which is a permission.
fn block(block: &LocatedBlock) -> Value {
    json!({
        "id": block.id, "stamp": block.stamp, "offset": block.offset, "length": block.length,
        "corrupt": block.corrupt, "open": block.open, "replicas": block.replicas,
    })
}

async fn content(
    State(pages): State<Pages>,
    asked: Asked<Content>,
    headers: HeaderMap,
) -> Response {
    let understood = taken(asked).and_then(|Content { path, range }| Ok((path_of(&path)?, range)));
    let (path, range) = match understood {
        Ok(understood) => understood,
        Err(error) => return refused(&error),
    };
    let user = pages.user(&headers);
    let user = match pages.viewer(user.as_deref()) {
        Ok(user) => user,
        Err(error) => return refused(&error),
    };
    let mut parameters = String::new();
    for (name, value) in range {
        if let Some(value) = value {
            parameters.push_str(&format!("&{name}={value}"));
        }
    }
    let mut response = pages.relay.redirect(user, &path, &parameters).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Makes a directory, or a file of the body.
async fn make(hand: Hand, asked: Asked<Made>, request: Request) -> Response {
    let made = async {
        let Made { path, is_directory, overwrite } = taken(asked)?;
        let path = path_of(&path)?;
        if is_directory {
            let mode = DIRECTORY_MODE;
            let call = calls::Mkdirs { path, mode, unmasked: Some(0o777), parents: false };
            return hand.change(0, call).await;
        }
        upload(hand, path, overwrite, request.into_body()).await
    };
    match made.await {
        Ok(()) => (StatusCode::CREATED, Json(json!({}))).into_response(),
        Err(error) => refused(&error),
    }
}

async fn delete(hand: Hand, asked: Asked<Deleted>) -> Response {
    let deleted = async {
        let Deleted { path, recursive } = taken(asked)?;
        let path = path_of(&path)?;
        let call = calls::Delete { path: path.clone(), recursive };
        match hand.change(0, call).await? {
            true => Ok(()),
            false => Err(RemoteError::new(ErrorKind::NotFound, format!("{path} does not exist"))),
        }
    };
    match deleted.await {
        Ok(()) => Json(json!({})).into_response(),
        Err(error) => refused(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daemon::params::understand;

    #[test]
    fn what_is_made_is_what_was_asked_for() {
        let made = |query: &str| understand::<Made>(query).map(|(made, _)| made.is_directory);
        assert_eq!(made("path=/a&type=directory"), Ok(true));
        for query in ["path=/a", "path=/a&type=file&overwrite=true", "path=/a&type="] {
            assert_eq!(made(query), Ok(false), "{query}");
        }
        for (query, text) in [
            (
                "path=/a&type=dir",
                "parameter \"type\" is \"dir\"; allowed is one of file, directory",
            ),
            ("path=/a&type=DIRECTORY", "allowed is one of file, directory"),
            ("path=/a&type=file&type=directory", "parameter \"type\" is given more than once"),
            ("path=/a&Type=directory", "did you mean \"type\"?"),
            ("path=/a&overwrite=yes", "allowed is one of true, false"),
            ("path=/a&type=directory&overwrite=true", "allowed is false for a directory"),
            ("path=/a&overwrit=true", "did you mean \"overwrite\"?"),
            ("path=%FF", "not percent-encoded UTF-8"),
        ] {
            let refused = made(query).unwrap_err().to_string();
            assert!(refused.contains(text), "{query}: {refused}");
        }
        assert!(understand::<Deleted>("path=/a&recursive=1").is_err());
        assert!(understand::<Content>("path=/a&offset=-1").is_err());
        let (_, warning) = understand::<Listed>("path=/a&recursive=true").unwrap();
        assert!(warning.unwrap().contains("recursive"), "it is told");
    }
}
