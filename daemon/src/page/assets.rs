//! Serves the style sheet, the scripts and the icon of the pages.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::embedded::{ACTIONS, ICON, LIVE, PATCH, STYLE, TABLES};
use crate::access::{Access, Audience, Routes};

/// Routes of the style sheet, the scripts and the icon.
pub fn assets<S: Clone + Send + Sync + 'static>(access: &Access) -> Routes<S> {
    let open = Audience::Anybody;
    let script = "text/javascript; charset=utf-8";
    Routes::new(access)
        .route("/style.css", open, get(|| asset("text/css; charset=utf-8", STYLE)))
        .route("/icon.svg", open, get(|| asset("image/svg+xml", ICON)))
        .route("/patch.js", open, get(move || asset(script, PATCH)))
        .route("/tables.js", open, get(move || asset(script, TABLES)))
        .route("/live.js", open, get(move || asset(script, LIVE)))
        .route("/actions.js", open, get(move || asset(script, ACTIONS)))
}

async fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::http::{Request, StatusCode};
    use maud::html;
    use protocol::auth::{Key, Service};
    use tower::ServiceExt;

    use super::super::embedded::SCRIPTS;
    use super::super::{Frame, Site};
    use super::*;
    use crate::access::Auth;
    use crate::auth::Authenticator;

    #[tokio::test]
    async fn pages_load_only_what_their_policy_allows_and_their_daemon_serves() {
        let site = Site { name: "Hanno", entries: &[], search: None, has_login: true };
        let frame = Frame { site, title: "", place: "", live: None, other: None, user: None };
        let policy = frame.answer(&html! {}).headers()[header::CONTENT_SECURITY_POLICY].clone();
        let policy = policy.to_str().unwrap();
        assert!(policy.starts_with("default-src 'self';") && !policy.contains("data:"), "{policy}");
        let page = frame.draw(&html! {});
        let head = page.split("</head>").next().unwrap();
        let loaded =
            head.split(['"']).filter(|value| value.starts_with('/') || value.contains(':'));
        let loaded: Vec<&str> = loaded.collect();
        assert_eq!(loaded, [&["/style.css", "/icon.svg"][..], &SCRIPTS].concat());
        let auth = Authenticator::new(&Key::new([1; 32]), Service::Namenode);
        let access = Access::new(auth, None, Auth::Token);
        for path in loaded {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let answer = Router::from(assets(&access)).oneshot(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
        }
    }
}
