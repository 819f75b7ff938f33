//! The NameNode's pages: the cluster at a glance, DataNodes, snapshots, a browser of files. They show what the signed-in user may see.
//! Without signing in, one sees the state of the cluster and no name of a file. Only where names are believed anyway does one see what a
//! user without any rights of their own may see, as in Hadoop. Who is signed in finds [`forms`] there, by which [`files`] and [`changes`] act.
//!
//! | page | file |
//! |---|---|
//! | overview, DataNodes, one DataNode | [`cluster`] with [`charts`], [`datanode`] |
//! | directories, files and their blocks | [`browse`], [`blocks`] |
//! | directories with snapshots, what changed between two | [`snapshots`] |
//! | what a signed-in user can do with files from them | [`forms`] |
//! | `/api/v1`: the same for scripts, and the changes that the browser of files makes | [`files`], [`changes`] |
//!
//! Below these are [`upload`] and [`relay`] (bytes to and from DataNodes), [`trash`], [`links`], and [`context`] (who asks, and in whose name it is done).

mod blocks;
mod browse;
mod changes;
mod charts;
mod cluster;
mod context;
mod datanode;
mod files;
mod forms;
mod links;
mod live;
mod relay;
mod snapshots;
mod trash;
mod upload;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use daemon::access::Access;
use daemon::page::live::Board;
use daemon::page::{self, Frame, Search, Site};
use daemon::params::Params;
use daemon::session::Sessions;
use maud::Markup;
use protocol::auth::Key;
use protocol::namenode::{ClusterStatus, DatanodeDetail, DatanodeReport, Room, calls};
use protocol::{ErrorKind, RemoteError};
use transport::rpc::now_ms;
use webhdfs::Auth;
use webhdfs::namenode::Face;

use self::context::{Found, Pages, path_of, status_of};
use self::forms::Tools;
use self::relay::Relay;
use crate::service::Local;
use crate::settings;

const SITE: Site = Site {
    name: "Hanno NameNode",
    entries: &[
        ("/", "Overview"),
        ("/datanodes", "DataNodes"),
        ("/browse", "Files"),
        ("/snapshots", "Snapshots"),
        ("/about", "About"),
    ],
    search: Some(Search { path: "/browse", parameter: "path", hint: "path, e.g. /user" }),
    has_login: true,
};

/// All pages. Bytes of files go over `face`, to DataNodes that know the `secret`.
pub(crate) fn router(
    web: Local,
    (face, secret): (Face<Local>, Key),
    (sessions, access): (Sessions, &Access),
) -> Router {
    let board = Board::default();
    let hour = charts::begin(&web);
    tokio::spawn(live::watch(web.clone(), board.clone()));
    Router::new()
        .route("/", get(overview))
        .route("/live", get(live::changes))
        .route("/live/overview", get(live::overview_changes))
        .route("/datanodes", get(datanodes))
        .route("/datanodes/{id}", get(datanode))
        .route("/browse", get(browse))
        .route("/snapshots", get(snapshots))
        .route("/about", get(about))
        .merge(files::routes())
        .merge(changes::routes())
        .merge(page::assets(access))
        .merge(sessions.routes(access))
        .with_state(Pages { web, sessions, relay: Relay::new(face, secret), board, hour })
}

/// What a page is besides its content.
struct About<'a> {
    title: &'a str,
    place: &'a str,
    live: bool,
    user: Option<&'a str>,
}

impl About<'_> {
    fn answer(&self, content: &Markup) -> Response {
        let &About { title, place, live, user } = self;
        // The overview has charts besides.
        let changes = if place == "/" { "/live/overview" } else { "/live" };
        let live = live.then(|| changes.to_owned());
        Frame { site: SITE, title, place, live, other: None, user }.answer(content)
    }

    /// A refusal as a page, so that there is a way back.
    fn refused(&self, error: &RemoteError) -> Response {
        let content = maud::html! {
            h1 { "This cannot be shown" }
            div.alert.bad { (error.message) }
            @if self.user.is_none() && matches!(error.kind, ErrorKind::PermissionDenied | ErrorKind::Unauthenticated) {
                p { "Nobody is signed in here: " a href="/login" { "how to sign in" } "." }
            }
        };
        let mut response = self.answer(&content);
        *response.status_mut() = status_of(error);
        response
    }
}

async fn overview(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let user = pages.user(&headers);
    let about = About { title: "Overview", place: "/", live: true, user: user.as_deref() };
    match seen(&pages.web).await {
        Ok((status, room, nodes)) => {
            let overview = cluster::overview((&status, &room), &nodes, warning(&pages));
            let charts = pages.hour.draw();
            about.answer(&maud::html! { (overview) (charts) })
        }
        Err(error) => about.refused(&error),
    }
}

/// What the overview shows.
async fn seen(web: &Local) -> Result<(ClusterStatus, Room, Vec<DatanodeReport>), RemoteError> {
    let status = web.query(calls::ClusterStatus).await?;
    let room = web.query(calls::Room).await?;
    Ok((status, room, web.query(calls::Datanodes).await?))
}

/// The warning on the overview of a cluster that believes names.
fn warning(pages: &Pages) -> Option<&'static str> {
    let auth = pages.web.service().config.webhdfs.auth;
    (auth == Auth::Simple).then_some(webhdfs::config::SIMPLE_WARNING)
}

async fn datanodes(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let user = pages.user(&headers);
    let about =
        About { title: "DataNodes", place: "/datanodes", live: true, user: user.as_deref() };
    match pages.web.query(calls::Datanodes).await {
        Ok(nodes) => about.answer(&cluster::datanodes(&nodes)),
        Err(error) => about.refused(&error),
    }
}

/// One DataNode. Its paths are for those who are signed in, as its configuration is.
async fn datanode(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let user = pages.user(&headers);
    let about = About { title: "DataNode", place: "/datanodes", live: true, user: user.as_deref() };
    match node_detail(&pages, &id, about.user).await {
        Ok(detail) => {
            let content = datanode::page(&detail, now_ms());
            About { title: &detail.report.info.host, ..about }.answer(&content)
        }
        Err(error) => about.refused(&error),
    }
}

async fn node_detail(
    pages: &Pages,
    id: &str,
    user: Option<&str>,
) -> Result<DatanodeDetail, RemoteError> {
    pages.viewer(user)?;
    let unknown = |_| RemoteError::new(ErrorKind::NotFound, format!("`{id}` is no DataNode's id."));
    pages.web.query(calls::Datanode { datanode: id.parse().map_err(unknown)? }).await
}

/// What this daemon is and how it is configured.
async fn about(State(pages): State<Pages>, headers: HeaderMap) -> Response {
    let user = pages.user(&headers);
    let about = About { title: "About", place: "/about", live: false, user: user.as_deref() };
    if let Err(error) = pages.viewer(about.user) {
        return about.refused(&error);
    }
    about.answer(&page::about::draw(&[], &settings::of(&pages.web.service().config)))
}

async fn browse(
    State(pages): State<Pages>,
    Params(query): Params<browse::Query>,
    headers: HeaderMap,
) -> Response {
    let user = pages.user(&headers);
    let title = if query.path.is_empty() { "/" } else { &query.path };
    let about = About { title, place: "/browse", live: false, user: user.as_deref() };
    match browsed(&pages, &query, about.user).await {
        Ok(content) => about.answer(&content),
        Err(error) => about.refused(&error),
    }
}

async fn browsed(
    pages: &Pages,
    query: &browse::Query,
    user: Option<&str>,
) -> Result<Markup, RemoteError> {
    let path = path_of(&query.path)?;
    let tools = Tools::of(&path, user, pages.trash_interval_ms());
    let located = match pages.find(user, &path, (&query.after, browse::PAGE_ROWS)).await? {
        Found::File(located) => located,
        Found::Directory { status, entries, remaining } => {
            let directory =
                browse::Directory { path: &path, status: &status, entries: &entries, remaining };
            return Ok(browse::directory(&directory, query, tools.as_ref()));
        }
    };
    let preview = match query.preview {
        browse::Preview::None => None,
        which => {
            let end = located.status.length.saturating_sub(browse::PREVIEW_BYTES);
            let offset = if which == browse::Preview::Tail { end } else { 0 };
            let range = (offset, browse::PREVIEW_BYTES);
            Some(pages.relay.text(pages.viewer(user)?, &path, range).await)
        }
    };
    Ok(browse::file(&path, &located, preview.as_ref(), tools.as_ref()))
}

async fn snapshots(
    State(pages): State<Pages>,
    Params(query): Params<snapshots::Query>,
    headers: HeaderMap,
) -> Response {
    let user = pages.user(&headers);
    let about =
        About { title: "Snapshots", place: "/snapshots", live: false, user: user.as_deref() };
    match snapshots::page(&pages, &query, about.user).await {
        Ok(content) => about.answer(&content),
        Err(error) => about.refused(&error),
    }
}
