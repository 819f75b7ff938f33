//! The NameNode's pages: the cluster at a glance, DataNodes, a browser of files. Read-only; they see what a user without any rights of
//! their own may see, as in Hadoop.
//!
//! | page | file |
//! |---|---|
//! | overview, DataNodes | [`cluster`] |
//! | directories, files and their blocks | [`browse`] |

mod browse;
mod cluster;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::hosts::Hosts;
use daemon::page::{self, Frame, Site};
use maud::Markup;
use protocol::namenode::{Answer, Call, Reply};
use protocol::{DfsPath, ErrorKind, RemoteError};
use webhdfs::namenode::Namesystem;

use crate::http::Web;

/// Whom pages act for: Hadoop's static user of its pages.
const USER: &str = "dr.who";

const SITE: Site = Site {
    name: "Hanno NameNode",
    entries: &[("/", "Overview"), ("/datanodes", "DataNodes"), ("/browse", "Files")],
};

/// What the pages need.
#[derive(Clone)]
struct Pages {
    web: Web,
}

/// All pages.
pub(crate) fn router(web: Web, hosts: Hosts) -> Router {
    Router::new()
        .route("/", get(overview))
        .route("/datanodes", get(datanodes))
        .route("/browse", get(browse))
        .merge(page::assets())
        .layer(from_fn_with_state(hosts, Hosts::guard))
        .with_state(Pages { web })
}

impl Pages {
    /// Reads the name space as whom pages act for.
    async fn read(&self, call: Call) -> Answer {
        self.web.call(USER, "", call).await
    }
}

/// Looks at the cluster for a page.
pub(crate) async fn look(web: &Web, call: Call) -> Answer {
    web.look(USER, call).await
}

fn answer(title: &str, place: &str, content: &Markup) -> Response {
    Frame { site: SITE, title, place, live: None, other: None }.answer(content)
}

/// A refusal as a page, so that there is a way back.
fn refused(place: &str, error: &RemoteError) -> Response {
    let status = match error.kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    let content = maud::html! { h1 { "This cannot be shown" } div.alert.bad { (error.message) } };
    let mut response = answer("Not shown", place, &content);
    *response.status_mut() = status;
    response
}

async fn overview(State(pages): State<Pages>) -> Response {
    let look = |call| look(&pages.web, call);
    match (look(Call::ClusterStatus).await, look(Call::Datanodes).await) {
        (Ok(Reply::Cluster(status)), Ok(Reply::Datanodes(nodes))) => {
            answer("Overview", "/", &cluster::overview(&status, &nodes))
        }
        (Err(error), _) | (_, Err(error)) => refused("/", &error),
        _ => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn datanodes(State(pages): State<Pages>) -> Response {
    match look(&pages.web, Call::Datanodes).await {
        Ok(Reply::Datanodes(nodes)) => {
            answer("DataNodes", "/datanodes", &cluster::datanodes(&nodes))
        }
        Ok(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(error) => refused("/datanodes", &error),
    }
}

async fn browse(State(pages): State<Pages>, Query(query): Query<browse::Query>) -> Response {
    let path = match DfsPath::parse(if query.path.is_empty() { "/" } else { &query.path }) {
        Ok(path) => path,
        Err(error) => {
            let error = RemoteError::new(ErrorKind::InvalidArgument, error.to_string());
            return refused("/browse", &error);
        }
    };
    let status = match pages.read(Call::Status(path.clone())).await {
        Ok(Reply::Status(status)) => status,
        Ok(_) => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(error) => return refused("/browse", &error),
    };
    let call = if status.directory {
        let limit = protocol::namenode::LIST_ENTRIES_MAX;
        Call::List { path: path.clone(), start_after: query.after.clone(), limit }
    } else {
        Call::Locations { path: path.clone(), offset: 0, length: u64::MAX }
    };
    match pages.read(call).await {
        Ok(Reply::Listing { entries, remaining }) => {
            answer(path.as_str(), "/browse", &browse::directory(&path, &query, &entries, remaining))
        }
        Ok(Reply::Located(located)) => {
            answer(path.as_str(), "/browse", &browse::file(&path, &located))
        }
        Ok(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(error) => refused("/browse", &error),
    }
}
