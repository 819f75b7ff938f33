//! The page of a DataNode or a worker: what it is, and charts of the last hour of it and its machine. What the cluster knows of it is on its master's page.

use axum::extract::State;
use axum::routing::get;
use maud::{Markup, html};

use protocol::address::{authority_of, web_url_of};

use super::{Frame, Site, assets, format};
use crate::access::{Access, Audience, Routes};
use crate::last_hour::LastHour;

/// The page.
#[derive(Clone, Debug)]
pub struct NodePage<const N: usize> {
    /// The name of the daemon, e.g. `Hanno DataNode`.
    pub name: &'static str,
    /// The name of the node.
    pub host: String,
    /// Address and name of the master's pages.
    pub master: (String, &'static str),
    /// What the node is: names and values.
    pub facts: Vec<(&'static str, String)>,
    /// The charts.
    pub hour: LastHour<N>,
}

/// The address of a page of the master that is configured as `daemon`, `http://host:port`.
pub fn of_master(daemon: &str, path: &str) -> String {
    format!("{}{path}", web_url_of(authority_of(daemon)))
}

/// The fact of what program runs.
pub fn version() -> (&'static str, String) {
    ("Version", format!("Hanno {}", env!("CARGO_PKG_VERSION")))
}

/// The fact of when the daemon started, in milliseconds since 1970.
pub fn since(start_ms: u64) -> (&'static str, String) {
    ("Running since", format!("{} (UTC)", format::time(start_ms)))
}

impl<const N: usize> NodePage<N> {
    /// Its routes. Everybody may read it: it names no user, no file and no job.
    pub fn routes(self, access: &Access) -> Routes {
        let (open, hour) = (Audience::Anybody, self.hour.clone());
        let page = get(|State(page): State<Self>| async move { page.answer() });
        Routes::new(access)
            .route("/", open, page)
            .route("/live", open, get(move || async move { hour.board().changes() }))
            .with_state(self)
            .merge(assets(access))
    }

    fn answer(&self) -> axum::response::Response {
        let entries = &[("/", "Overview")];
        let site = Site { name: self.name, entries, search: None, has_login: false };
        let (address, name) = &self.master;
        Frame {
            site,
            title: &self.host,
            place: "/",
            live: Some("/live".to_owned()),
            other: Some((address, name)),
            user: None,
        }
        .answer(&self.content())
    }

    fn content(&self) -> Markup {
        html! {
            h1 { (self.host) }
            div.scroll { table.facts {
                caption.unseen { "This node" }
                @for (name, value) in &self.facts { tr { th scope="row" { (name) } td.wide { (value) } } }
            } }
            (self.hour.draw())
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use http_body_util::BodyExt;
    use protocol::auth::{Key, Service};
    use tower::ServiceExt;

    use super::*;
    use crate::access::Auth;
    use crate::auth::Authenticator;

    #[test]
    fn pages_of_other_machines_are_encrypted() {
        for (daemon, page) in [
            ("http://a:1", "https://a:1/workers"),
            ("http://a:1/", "https://a:1/workers"),
            ("http://127.0.0.1:1", "http://127.0.0.1:1/workers"),
        ] {
            assert_eq!(of_master(daemon, "/workers"), page, "{daemon}");
        }
    }

    const HOSTILE: &str = "\"><img src=x onerror=alert(1)>";

    #[tokio::test]
    async fn everybody_may_read_it_and_its_facts_stay_text() {
        let page = NodePage {
            name: "Hanno DataNode",
            host: HOSTILE.to_owned(),
            master: (HOSTILE.to_owned(), "NameNode"),
            facts: vec![("Rack", HOSTILE.to_owned())],
            hour: LastHour::new("DataNode", []).with_machine(),
        };
        let auth = Authenticator::new(&Key::new([1; 32]), Service::Datanode);
        let router = Router::from(page.routes(&Access::new(auth, None, Auth::Token)));
        let request = |path| Request::get(path).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request("/")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let text = str::from_utf8(&body).unwrap();
        assert!(!text.contains("<img") && !text.contains("/login"), "{text}");
        for part in ["data-live=\"/live\"", "Rack", "Memory of the DataNode: no figures yet"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for path in ["/live", "/style.css"] {
            let answer = router.clone().oneshot(request(path)).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
        }
    }
}
