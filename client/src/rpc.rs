//! Signed calls to a daemon: postcard bodies over kept-alive HTTP, retried while the daemon is away.
//!
//! A call that changes something carries a call id in its message, so sending it again is safe: the daemon answers a
//! repeated one with its first answer. That is why every failure to get an answer may be retried here.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::auth::{
    Body, Key, LOGIN_METHOD, Nonce, Role, Signature, SignedRequest, login_target,
};
use protocol::{ErrorKind, RemoteError, wire};
use reqwest::Url;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use crate::error::RpcError;
use crate::pass::PassHolder;

/// First pause between tries; doubles up to [`RETRY_PAUSE_MAX`], with jitter.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(20);
/// Longest pause between tries: a daemon that is back is found within a second.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Time to establish a connection; daemons are on the local network.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections kept per daemon.
const IDLE_CONNECTIONS_MAX: usize = 256;

/// How long and how often a call is tried.
#[derive(Clone, Copy, Debug)]
pub struct CallOptions {
    /// Time for one try, from sending to the whole answer.
    pub attempt_timeout: Duration,
    /// Time after which no further try begins. Zero: one try.
    pub retry_for: Duration,
}

impl Default for CallOptions {
    /// 60 s per try and 60 s of tries: a restart of a daemon is bridged, a daemon that stays away is reported.
    fn default() -> Self {
        CallOptions { attempt_timeout: Duration::from_secs(60), retry_for: Duration::from_secs(60) }
    }
}

impl CallOptions {
    /// One try.
    pub fn once(attempt_timeout: Duration) -> Self {
        CallOptions { attempt_timeout, retry_for: Duration::ZERO }
    }
}

/// A daemon to call. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct RpcClient {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    base: String,
    /// `base`, read once.
    url: Url,
    identity: Identity,
    /// Of the nonces; random.
    stream: u64,
    /// Requests signed so far.
    request_count: AtomicU64,
}

/// In whose name calls are signed.
#[derive(Debug)]
enum Identity {
    /// A role, with its key once the secret is known.
    Role(Role, OnceLock<Key>),
    /// A task of a job.
    Task(PassHolder),
}

/// What every daemon answers to `GET /healthz`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Health {
    /// `namenode`, `datanode`, `jobtracker` or `worker`.
    pub service: String,
    /// Where the cluster secret is kept on the daemon's machine; only its owner can read it.
    pub secret_file: Option<PathBuf>,
    /// True if it can do its work (for the NameNode: out of safe mode).
    #[serde(default)]
    pub ready: bool,
    /// Anything else it tells.
    #[serde(flatten)]
    pub more: std::collections::BTreeMap<String, serde_json::Value>,
}

impl Health {
    /// Itself, if the daemon at `address` is what is wanted.
    ///
    /// # Errors
    /// [`RpcError::OtherDaemon`].
    pub fn expect(self, address: &str, wanted: &'static str) -> Result<Self, RpcError> {
        if self.service == wanted {
            return Ok(self);
        }
        let found = self.service.chars().filter(|c| c.is_ascii_alphanumeric()).take(40).collect();
        Err(RpcError::OtherDaemon { address: address.to_owned(), found, wanted })
    }
}

impl RpcClient {
    /// A client of the daemon at `base` (`http://host:port`). With no `secret`, it is read from the file that the daemon's
    /// `/healthz` names, at the first call: on the daemon's machine its owner needs no set-up.
    ///
    /// # Errors
    /// [`RpcError::Address`] if `base` is not such an address.
    pub fn new(base: &str, role: Role, secret: Option<&Key>) -> Result<Self, RpcError> {
        let key = OnceLock::new();
        if let Some(secret) = secret {
            key.get_or_init(|| role.key(secret));
        }
        RpcClient::signing(base, Identity::Role(role, key))
    }

    /// A client of the daemon at `base` that signs as a task.
    ///
    /// # Errors
    /// [`RpcError::Address`] if `base` is not such an address.
    pub fn of_task(base: &str, pass: &PassHolder) -> Result<Self, RpcError> {
        RpcClient::signing(base, Identity::Task(pass.clone()))
    }

    fn signing(base: &str, identity: Identity) -> Result<Self, RpcError> {
        let base = base.trim_end_matches('/').to_owned();
        let parsed = Url::parse(&base).ok();
        let parsed = parsed.filter(|url| url.scheme() == "http" && url.host().is_some());
        let Some(url) = parsed else { return Err(RpcError::Address { address: base }) };
        let (stream, request_count) = (rand::random(), AtomicU64::new(0));
        let inner = Inner { http: http_client(), base, url, identity, stream, request_count };
        Ok(RpcClient { inner: Arc::new(inner) })
    }

    /// The daemon's address.
    pub fn base(&self) -> &str {
        &self.inner.base
    }

    /// Sends `message` to `target` (a path) and decodes the daemon's `Result<A, RemoteError>`.
    ///
    /// # Errors
    /// [`RpcError::Remote`] if the daemon refused; others if no answer could be had in time.
    pub async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        target: &str,
        message: &Q,
        options: CallOptions,
    ) -> Result<A, RpcError> {
        let body = wire::encode(message);
        let deadline = Instant::now() + options.retry_for;
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            let error = match self.attempt(target, &body, options.attempt_timeout).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(refusal)) => RpcError::Remote(refusal),
                Err(error) => error,
            };
            if !error.is_transient() || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tracing::debug!(daemon = %self.inner.base, error = %crate::error::chain(&error), "call failed, trying again");
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.0))).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// As [`RpcClient::call`] for callers without a runtime. Must not be called on a runtime's own threads.
    ///
    /// # Errors
    /// As [`RpcClient::call`].
    pub fn call_blocking<Q: Serialize, A: DeserializeOwned>(
        &self,
        target: &str,
        message: &Q,
        options: CallOptions,
    ) -> Result<A, RpcError> {
        runtime().block_on(self.call(target, message, options))
    }

    /// Sends a signed GET; the caller reads the body. An answer other than 2xx is an error.
    ///
    /// # Errors
    /// [`RpcError`].
    pub async fn get(&self, target: &str) -> Result<reqwest::Response, RpcError> {
        let header = self.sign("GET", target, Body::Bytes(b"")).await?;
        let request = self.inner.http.get(self.url(target)?).header("authorization", header);
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let text = response.text().await.unwrap_or_default();
        Err(RpcError::Status { address: self.inner.base.clone(), status, text: first_line(&text) })
    }

    /// Asks the daemon who it is; not signed.
    ///
    /// # Errors
    /// [`RpcError`] if it is away or not one of ours.
    pub async fn health(&self) -> Result<Health, RpcError> {
        let request = self.inner.http.get(self.url("/healthz")?).timeout(CONNECT_TIMEOUT);
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        response.json().await.map_err(|_| RpcError::NotOurs { address: self.inner.base.clone() })
    }

    async fn attempt<A: DeserializeOwned>(
        &self,
        target: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Result<A, RemoteError>, RpcError> {
        let header = self.sign("POST", target, Body::Bytes(body)).await?;
        let request = self
            .inner
            .http
            .post(self.url(target)?)
            .header("authorization", header)
            .timeout(timeout)
            .body(body.to_vec());
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        let status = response.status().as_u16();
        let bytes = response.bytes().await.map_err(|source| self.unreachable(source))?;
        match status {
            200 => wire::decode(&bytes, "answer").map_err(RpcError::Malformed),
            503 => Ok(Err(RemoteError::new(
                ErrorKind::Unavailable,
                first_line(&String::from_utf8_lossy(&bytes)),
            ))),
            _ => {
                let text = first_line(&String::from_utf8_lossy(&bytes));
                Err(RpcError::Status { address: self.inner.base.clone(), status, text })
            }
        }
    }

    /// A link that signs a browser in to the daemon's pages as `user`, once and within minutes.
    ///
    /// # Errors
    /// [`RpcError`] if the cluster secret cannot be had.
    pub async fn login_link(&self, service: &str, user: &str) -> Result<String, RpcError> {
        let target = login_target(service, user);
        let proof = self.sign(LOGIN_METHOD, &target, Body::Bytes(b"")).await?;
        let mut link = self.url("/login")?;
        let proof = proof.replace(' ', ".");
        link.query_pairs_mut().append_pair("user", user).append_pair("proof", &proof);
        Ok(link.into())
    }

    fn url(&self, target: &str) -> Result<Url, RpcError> {
        let joined = self.inner.url.join(target);
        joined.map_err(|_| RpcError::Address { address: format!("{}{target}", self.inner.base) })
    }

    async fn sign(&self, method: &str, target: &str, body: Body<'_>) -> Result<String, RpcError> {
        let number = self.inner.request_count.fetch_add(1, Ordering::Relaxed);
        let nonce = Nonce { stream: self.inner.stream, number };
        let request = SignedRequest { method, target, body };
        let signature = match &self.inner.identity {
            Identity::Task(holder) => {
                Signature::sign_as_task(&holder.pass(), now_ms(), nonce, request)
            }
            Identity::Role(role, known) => {
                let key = match known.get() {
                    Some(key) => key,
                    None => {
                        let found = self.find_secret().await?;
                        known.get_or_init(|| role.key(&found))
                    }
                };
                Signature::sign(key, *role, now_ms(), nonce, request)
            }
        };
        Ok(signature.to_header())
    }

    async fn find_secret(&self) -> Result<Key, RpcError> {
        let health = self.health().await?;
        let path = health
            .secret_file
            .ok_or_else(|| RpcError::NotOurs { address: self.inner.base.clone() })?;
        read_secret(&path)
    }

    fn unreachable(&self, source: reqwest::Error) -> RpcError {
        RpcError::Unreachable { address: self.inner.base.clone(), source: source.without_url() }
    }
}

/// Reads a cluster secret.
///
/// # Errors
/// [`RpcError::Secret`] if it is unreadable, readable by others, or no secret.
pub fn read_secret(path: &Path) -> Result<Key, RpcError> {
    let fail = |reason: String| RpcError::Secret { path: path.to_owned(), reason };
    let metadata = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(fail("other users can read it; run chmod 600 on it".to_owned()));
    }
    let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    Key::from_file_text(&text).map_err(|reason| fail(reason.to_owned()))
}

/// The runtime that drives HTTP for callers without one: one thread, made at first use.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("hanno-client")
            .enable_all()
            .build()
            .expect("the system can start one thread")
    })
}

/// The wall clock, milliseconds since the epoch.
pub fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

fn http_client() -> reqwest::Client {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    let build = || {
        reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .build()
            .expect("a client without TLS has nothing that can fail")
    };
    CLIENT.get_or_init(build).clone()
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(500).collect()
}
