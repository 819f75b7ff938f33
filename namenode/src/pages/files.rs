//! `/api/v1` of the NameNode: the cluster, DataNodes and files for scripts, and the changes that the browser of files makes.
//!
//! Everybody can read the state of the cluster, signed-in users can read files. Changes need a session and come from our own pages
//! ([`daemon::session`]); the permissions of the file system decide.

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use client::namesystem::{CallOrigin, Namesystem};
use daemon::session::Actor;
use protocol::namenode::{DIRECTORY_MODE, LIST_ENTRIES_MAX, LocatedBlock, LocatedBlocks, calls};
use protocol::{ErrorKind, RemoteError};
use serde::Deserialize;
use serde_json::{Value, json};

use super::context::{Found, Pages, path_of, status_of};

/// A description of the API, for programs.
const OPENAPI: &str = include_str!("openapi.json");

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    path: String,
    after: String,
    recursive: bool,
    overwrite: bool,
    /// `directory`, or a file.
    r#type: String,
    offset: Option<u64>,
    length: Option<u64>,
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

fn refused(error: &RemoteError) -> Response {
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

async fn read(
    State(pages): State<Pages>,
    Query(named): Query<Named>,
    headers: HeaderMap,
) -> Response {
    let user = pages.user(&headers);
    match described(&pages, &named, user.as_deref()).await {
        Ok(value) => Json(value).into_response(),
        Err(error) => refused(&error),
    }
}

async fn described(pages: &Pages, named: &Named, user: Option<&str>) -> Result<Value, RemoteError> {
    let path = path_of(&named.path)?;
    Ok(match pages.find(user, &path, (&named.after, LIST_ENTRIES_MAX)).await? {
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
    Query(named): Query<Named>,
    headers: HeaderMap,
) -> Response {
    let path = match path_of(&named.path) {
        Ok(path) => path,
        Err(error) => return refused(&error),
    };
    let user = pages.user(&headers);
    let user = match pages.viewer(user.as_deref()) {
        Ok(user) => user,
        Err(error) => return refused(&error),
    };
    let mut parameters = String::new();
    for (name, value) in [("offset", named.offset), ("length", named.length)] {
        if let Some(value) = value {
            parameters.push_str(&format!("&{name}={value}"));
        }
    }
    let mut response = pages.relay.redirect(user, &path, &parameters).await;
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Makes a directory, or a file of the body.
async fn make(
    Actor(user): Actor,
    State(pages): State<Pages>,
    Query(named): Query<Named>,
    request: Request,
) -> Response {
    let made = async {
        let path = path_of(&named.path)?;
        if named.r#type == "directory" {
            let mode = DIRECTORY_MODE;
            let call = calls::Mkdirs { path, mode, unmasked: Some(0o777), parents: false };
            return pages.web.ask(&user, CallOrigin::default(), call).await;
        }
        let body: Body = request.into_body();
        pages.relay.write(&user, &path, named.overwrite, body).await
    };
    match made.await {
        Ok(()) => (StatusCode::CREATED, Json(json!({}))).into_response(),
        Err(error) => refused(&error),
    }
}

async fn delete(
    Actor(user): Actor,
    State(pages): State<Pages>,
    Query(named): Query<Named>,
) -> Response {
    let deleted = async {
        let call = calls::Delete { path: path_of(&named.path)?, recursive: named.recursive };
        pages.web.ask(&user, CallOrigin::default(), call).await
    };
    match deleted.await {
        Ok(false) => refused(&RemoteError::new(
            ErrorKind::NotFound,
            format!("{} does not exist", named.path),
        )),
        Ok(true) => Json(json!({})).into_response(),
        Err(error) => refused(&error),
    }
}
