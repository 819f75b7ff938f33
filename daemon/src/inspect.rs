//! Pages that operators request from every daemon at Hadoop's addresses: `/conf`, `/logLevel`, `/stacks`.
//!
//! Users may read them. Setting a level takes a request signed with the cluster secret, so no page in a browser can do it. No configuration holds a secret: it
//! names the file.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use maud::{PreEscaped, html};
use protocol::auth::HELLO;
use serde::Serialize;
use serde_json::json;
use toml::{Table, Value};

use crate::access::{Access, Audience, Routes, User};
use crate::auth::AuthError;
use crate::params::{BadParameter, Given, Parameters, Params};
use crate::{log, rpc};

/// Source of a value that nobody set, in the words of `/conf`.
const DEFAULT: &str = "default";
/// Source of other values: the file or a variable.
const CONFIGURED: &str = "configuration";
/// Begins each line of an answer that Hadoop's `daemonlog` prints.
const MARK: &str = "<!-- OUTPUT -->";
const XML: HeaderValue = HeaderValue::from_static("text/xml; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// A key of the configuration with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its name.
    pub key: String,
    /// Its value as text.
    pub value: String,
    /// True if it is the default.
    pub is_default: bool,
}

impl Setting {
    /// A key under Hadoop's name, for tools that read it.
    pub fn hadoop(key: &str, value: impl ToString, is_default: bool) -> Setting {
        Setting { key: key.to_owned(), value: value.to_string(), is_default }
    }

    fn source(&self) -> &'static str {
        if self.is_default { DEFAULT } else { CONFIGURED }
    }
}

/// Every key of `config` as `hanno.<daemon>.<key>`, in order.
pub fn settings<T: Serialize + Default>(daemon: &str, config: &T) -> Vec<Setting> {
    let table = |value: &T| {
        let mut found = Vec::new();
        let table = Table::try_from(value).expect("a configuration is a table of plain values");
        flatten(&format!("hanno.{daemon}"), &table, &mut found);
        found
    };
    let defaults = table(&T::default());
    let all = table(config).into_iter();
    all.map(|(key, value)| {
        let is_default = defaults.iter().any(|default| *default == (key.clone(), value.clone()));
        Setting { key, value, is_default }
    })
    .collect()
}

fn flatten(prefix: &str, table: &Table, found: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let key = format!("{prefix}.{key}");
        match value {
            Value::Table(table) => flatten(&key, table, found),
            Value::String(text) => found.push((key, text.clone())),
            other => found.push((key, other.to_string())),
        }
    }
}

/// The routes for a daemon with these settings, and the one that reports who it is.
pub fn routes(access: &Access, settings: Vec<Setting>) -> Routes {
    Routes::new(access)
        .route("/conf", Audience::Users, get(conf))
        .route("/logLevel", Audience::Users, get(log_level))
        .route("/stacks", Audience::Users, get(stacks))
        .route(HELLO, Audience::Signers, rpc::hello(access.authenticator().clone()))
        .with_state(Arc::new(settings))
}

struct Wanted {
    name: Option<String>,
    is_json: Option<bool>,
}

impl Parameters for Wanted {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Wanted {
            name: given.text("name")?.map(str::to_owned),
            is_json: given.choice("format", &[("json", true), ("xml", false)])?,
        })
    }
}

/// `/conf` as Hadoop's: XML, or JSON if the client accepts or requests that.
async fn conf(
    State(all): State<Arc<Vec<Setting>>>,
    headers: HeaderMap,
    Params(wanted): Params<Wanted>,
) -> Response {
    let accepts_json = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("application/json"));
    let is_json = wanted.is_json.unwrap_or(accepts_json);
    let name = wanted.name.as_deref();
    let chosen: Vec<&Setting> =
        all.iter().filter(|setting| name.is_none_or(|name| name == setting.key)).collect();
    if let (Some(name), true) = (name, chosen.is_empty()) {
        return (StatusCode::NOT_FOUND, format!("Property {name} not found\n")).into_response();
    }
    let (kind, text) = match (is_json, name) {
        (false, _) => (XML, as_xml(&chosen)),
        (true, Some(_)) => (JSON, json!({ "property": as_json(chosen[0]) }).to_string()),
        (true, None) => {
            let properties: Vec<_> = chosen.into_iter().map(as_json).collect();
            (JSON, json!({ "properties": properties }).to_string())
        }
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

fn as_json(setting: &Setting) -> serde_json::Value {
    json!({
        "key": setting.key,
        "value": setting.value,
        "isFinal": false,
        "resource": setting.source(),
    })
}

fn as_xml(settings: &[&Setting]) -> String {
    let all = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"no\"?>"))
        configuration {
            "\n"
            @for setting in settings {
                property {
                    name { (printable(&setting.key)) } value { (printable(&setting.value)) }
                    final { "false" } source { (setting.source()) }
                }
                "\n"
            }
        }
        "\n"
    };
    all.into_string()
}

/// Text without control characters, which XML cannot hold.
fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect()
}

struct Level {
    log: Option<String>,
    level: Option<String>,
}

impl Parameters for Level {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let text = |name| Ok(given.text(name)?.map(str::to_owned));
        let (log, level) = (text("log")?, text("level")?);
        if log.is_none() && level.is_some() {
            let (name, why) = ("log".to_owned(), "a level is one of a logger".to_owned());
            return Err(BadParameter::Missing { name, why });
        }
        Ok(Level { log, level })
    }
}

/// `/logLevel` as Hadoop's: reports the level of a logger, and sets it if `level` is given.
async fn log_level(user: User, Params(asked): Params<Level>) -> Response {
    let mut lines = Vec::new();
    if let Some(logger) = asked.log.as_deref() {
        lines.push(("Submitted Class Name", logger.to_owned()));
        if let Some(level) = asked.level.as_deref() {
            if let Err(refusal) = change(&user, logger, level) {
                return refusal;
            }
            lines.push(("Submitted Level", level.to_owned()));
            lines.push(("Setting Level to", level.to_uppercase()));
        }
        lines.push(("Effective Level", log::level(logger).to_uppercase()));
    }
    let page = html! {
        html {
            body {
                h1 { "Log Level" } "\n"
                @for (name, value) in lines {
                    (PreEscaped(MARK)) (name) ": " b { (printable(&value)) } br; "\n"
                }
            }
        }
        "\n"
    };
    ([(header::CONTENT_TYPE, HTML)], page.into_string()).into_response()
}

#[allow(clippy::result_large_err, reason = "a refusal is the answer as it is sent")]
fn change(user: &User, logger: &str, level: &str) -> Result<(), Response> {
    if !user.is_signed {
        let error = AuthError::Missing;
        let text = format!("{error}; `hanno admin log-level` signs what it asks\n");
        return Err((StatusCode::UNAUTHORIZED, text).into_response());
    }
    log::set_level(logger, level)
        .map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response())?;
    tracing::warn!(logger, level, user = user.name, "a log level was set");
    Ok(())
}

/// In Hadoop, the page with the stacks of Java's threads.
async fn stacks() -> Response {
    let text = "This is a native program: it cannot tell the stacks of its own threads. \
                `gdb -p PID -batch -ex 'thread apply all bt'` or `perf record -g -p PID` shows them.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Auth;
    use crate::auth::Authenticator;
    use axum::Router;
    use axum::body::Body;
    use http_body_util::BodyExt;
    use std::sync::LazyLock;

    use protocol::auth::{
        BodyDigest, Key, Nonce, Occasion, Role, Service, Signature, SignedRequest,
    };
    use tower::ServiceExt;

    #[derive(Serialize)]
    struct Sample {
        bind: String,
        size: u64,
        table: Inner,
    }

    #[derive(Serialize)]
    struct Inner {
        name: String,
    }

    impl Default for Sample {
        fn default() -> Self {
            let table = Inner { name: "<a\u{1}&\u{7f}b>".to_owned() };
            Sample { bind: "127.0.0.1:1".to_owned(), size: 5, table }
        }
    }

    static AUTH: LazyLock<Authenticator> =
        LazyLock::new(|| Authenticator::new(&Key::new([3; 32]), Service::Namenode));

    async fn ask(target: &str, headers: &[(&str, String)]) -> (u16, String) {
        let all = settings("x", &Sample { size: 6, ..Sample::default() });
        // Every name is accepted: a request without one comes from the static user.
        let router = Router::from(routes(&Access::new(AUTH.clone(), None, Auth::Simple), all));
        let mut request = axum::http::Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_configuration_in_both_formats() {
        let (status, xml) = ask("/conf", &[]).await;
        assert_eq!(status, 200);
        for part in [
            "<property><name>hanno.x.size</name><value>6</value><final>false</final><source>configuration</source></property>",
            "<name>hanno.x.bind</name><value>127.0.0.1:1</value><final>false</final><source>default</source>",
            "<name>hanno.x.table.name</name><value>&lt;a&amp;b&gt;</value>",
        ] {
            assert!(xml.contains(part), "{xml}");
        }
        let accept = [("accept", "application/json".to_owned())];
        let (_, all) = ask("/conf", &accept).await;
        let all: serde_json::Value = serde_json::from_str(&all).unwrap();
        assert_eq!(all["properties"].as_array().unwrap().len(), 3);
        let (_, one) = ask("/conf?name=hanno.x.size&format=json", &[]).await;
        let one: serde_json::Value = serde_json::from_str(&one).unwrap();
        assert_eq!(one["property"]["value"], "6");
        assert_eq!(
            ask("/conf?name=none", &[]).await,
            (404, "Property none not found\n".to_owned())
        );
        for (target, text) in [
            (
                "/conf?format=yaml",
                "parameter \"format\" is \"yaml\"; allowed is one of json, xml\n",
            ),
            ("/conf?name=a&name=b", "parameter \"name\" is given more than once\n"),
            ("/conf?formt=json", "there is no parameter \"formt\"; did you mean \"format\"?\n"),
            ("/logLevel?level=debug", "parameter \"log\" is missing: a level is one of a logger\n"),
        ] {
            assert_eq!(ask(target, &[]).await, (400, text.to_owned()));
        }
    }

    #[tokio::test]
    async fn a_level_is_told_to_users_and_set_by_who_has_the_secret() {
        let (status, text) = ask("/logLevel?log=inspect_test", &[]).await;
        assert_eq!(status, 200);
        assert!(text.contains("<!-- OUTPUT -->Submitted Class Name: <b>inspect_test</b><br>\n"));
        assert!(text.contains("Effective Level: <b>"), "{text}");
        let target = "/logLevel?log=inspect_test&level=debug&user.name=ann";
        assert_eq!(ask(target, &[]).await.0, 401);
        let secret = Key::new([3; 32]);
        let signed = |target: &'static str, role: Role, number: u64| {
            let request = SignedRequest { method: "GET", target };
            let now = std::time::SystemTime::now();
            let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
            let nonce = Nonce { stream: 1, number };
            let to = AUTH.hello().incarnation;
            let on = Occasion { time_ms: now, nonce, to, body: BodyDigest::EMPTY };
            let signature = Signature::sign(&role.key(&secret).ready(), role, on, request);
            [("authorization", signature.to_header())]
        };
        assert_eq!(ask(target, &signed(target, Role::Worker, 1)).await.0, 403);
        let (status, text) = ask(target, &signed(target, Role::Client, 2)).await;
        // Without our subscriber in this process nothing can be set, and the answer says so.
        assert!(status == 200 || text.contains("not started"), "{status} {text}");
        let wrong = "/logLevel?log=inspect_test&level=loud&user.name=ann";
        assert_eq!(ask(wrong, &signed(wrong, Role::Client, 3)).await.0, 400);
        assert_eq!(ask("/stacks", &[]).await.0, 404);
    }
}
