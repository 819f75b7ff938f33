//! The connections to a daemon, and what is known of who answers there; shared by all clients of this process.
//!
//! What stays on the machine is plain. Elsewhere there are two sets of connections: those for hellos meet anybody and carry nothing else, and those for calls are made
//! only to whom a hello has proven.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use protocol::address::is_loopback;
use protocol::auth::{Fingerprint, Hello};
use reqwest::tls::TlsInfo;
use reqwest::{Client, ClientBuilder, Response, Url};
use tls::{Pin, TlsError};

/// Time to establish a connection; daemons are on the local network.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Addresses of which something is remembered: more than the daemons of any cluster.
const CONTACTS_MAX: usize = 100_000;
/// Idle connections kept per daemon.
const IDLE_CONNECTIONS_MAX: usize = 256;

/// A daemon's address.
#[derive(Debug)]
pub(super) struct Contact {
    /// Where requests go: `http://…` on this machine, `https://…` elsewhere.
    pub(super) url: Url,
    /// For calls.
    pub(super) calls: Client,
    /// For whoever answers there.
    pub(super) hellos: Client,
    /// The certificate that connections for calls take; `None` if they are plain.
    pin: Option<Pin>,
    /// The process that has proven itself.
    known: RwLock<Option<Hello>>,
    /// True once one has said who it is; stays.
    pub(super) is_met: AtomicBool,
}

impl Contact {
    /// What this process shares for the daemon at `base`; `None` if that is no address.
    pub(super) fn at(base: &str) -> Option<Arc<Self>> {
        static ALL: OnceLock<Mutex<HashMap<String, Arc<Contact>>>> = OnceLock::new();
        let mut all = ALL.get_or_init(Mutex::default).lock();
        if let Some(contact) = all.get(base) {
            return Some(Arc::clone(contact));
        }
        let contact = Arc::new(Contact::new(base)?);
        if all.len() >= CONTACTS_MAX {
            // Existing holders keep their entry; the other daemons are asked again.
            all.clear();
        }
        all.insert(base.to_owned(), Arc::clone(&contact));
        Some(contact)
    }

    fn new(base: &str) -> Option<Self> {
        let url = Url::parse(base).ok().filter(|url| url.scheme() == "http")?;
        let authority = format!("{}:{}", url.host_str()?, url.port_or_known_default()?);
        let (known, is_met) = (RwLock::default(), AtomicBool::default());
        if is_loopback(&authority) {
            let (calls, hellos) = (plain(), plain());
            return Some(Contact { url, calls, hellos, pin: None, known, is_met });
        }
        let url = Url::parse(&format!("https://{authority}{}", url.path())).ok()?;
        let pin = Pin::default();
        let calls = pinned(&pin);
        Some(Contact { url, calls, hellos: strangers(), pin: Some(pin), known, is_met })
    }

    /// The process that has proven itself last.
    pub(super) fn known(&self) -> Option<Hello> {
        *self.known.read()
    }

    /// Remembers whose hello was good, and the certificate that it proved.
    pub(super) fn learn(&self, hello: Hello, certificate: Option<Fingerprint>) {
        if let (Some(pin), Some(certificate)) = (&self.pin, certificate) {
            pin.set(certificate);
        }
        *self.known.write() = Some(hello);
        self.is_met.store(true, Ordering::Relaxed);
    }

    /// True if one has ever said who it is.
    pub(super) fn has_met(&self) -> bool {
        self.is_met.load(Ordering::Relaxed)
    }

    /// Whoever answers there must prove itself again.
    pub(super) fn forget(&self) {
        *self.known.write() = None;
    }

    /// True if bytes to it are encrypted.
    pub(super) fn is_secure(&self) -> bool {
        self.pin.is_some()
    }
}

/// The certificate of whoever sent this answer to a request for a hello, if the connection was encrypted.
pub(super) fn certificate_of(response: &Response) -> Option<Fingerprint> {
    let info = response.extensions().get::<TlsInfo>()?;
    info.peer_certificate().map(Fingerprint::of)
}

/// For what stays on the machine, and for locations that name no encryption.
pub(crate) fn plain() -> Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    CLIENT.get_or_init(|| pinned(&Pin::default())).clone()
}

/// For servers for which an authority of this machine's vouches.
///
/// # Errors
/// [`TlsError`] if the machine knows no authority.
pub(crate) fn vouched_for() -> Result<Client, TlsError> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    if let Some(client) = CLIENT.get() {
        return Ok(client.clone());
    }
    let made = client(builder().tls_backend_preconfigured(tls::for_authorities()?));
    Ok(CLIENT.get_or_init(|| made).clone())
}

fn pinned(pin: &Pin) -> Client {
    client(builder().tls_backend_preconfigured((*tls::for_pinned(pin)).clone()))
}

fn strangers() -> Client {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let build = || {
        let settings = (*tls::for_hello()).clone();
        // No connection outlives the answer: what was said on it vouches for nothing later.
        client(
            builder().tls_backend_preconfigured(settings).tls_info(true).pool_max_idle_per_host(0),
        )
    };
    CLIENT.get_or_init(build).clone()
}

fn builder() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
}

fn client(builder: ClientBuilder) -> Client {
    builder.build().expect("the settings fit each other")
}
