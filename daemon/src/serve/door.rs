//! Who gets in: each connection is encrypted, or plain, and what is plain has to come from this machine.
//!
//! The first byte decides: a TLS handshake begins with `HANDSHAKE`, which no HTTP method does. So one port serves both, and a client finds every daemon at
//! the address that it always had. A plain request from another machine is answered with 426 and nothing else, unless `allow_unencrypted` lets it in; block
//! transfer has no such exception, because all its clients can encrypt.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::auth::Fingerprint;
use serde::{Deserialize, Serialize};
use tls::Certificate;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::ServeError;

/// First byte of a TLS connection.
const HANDSHAKE: u8 = 0x16;

/// A certificate from an authority, for clients that know nothing of Hanno's hellos: browsers, curl, Hadoop's.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// File of the chain (PEM), the daemon's own certificate first.
    pub certificate: PathBuf,
    /// File of its private key (PEM), which only its owner can read.
    pub key: PathBuf,
}

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Door {
    certificate: Certificate,
    allow_unencrypted: bool,
}

impl Door {
    /// With the certificate of `files`, or one that is made now. With `allow_unencrypted`, plain requests of other machines are served.
    ///
    /// # Errors
    /// [`ServeError::Certificate`].
    pub fn new(
        files: Option<&CertificateFiles>,
        allow_unencrypted: bool,
    ) -> Result<Self, ServeError> {
        let certificate = match files {
            Some(CertificateFiles { certificate, key }) => {
                Certificate::from_files(certificate, key)?
            }
            None => Certificate::fresh()?,
        };
        if allow_unencrypted {
            tracing::warn!(
                "`allow_unencrypted = true`: clients of other machines may send and receive plain text that others on the network can read and change"
            );
        }
        Ok(Door { certificate, allow_unencrypted })
    }

    /// The daemon's certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Begins the encryption of a connection that wants it.
    ///
    /// # Errors
    /// The connection has ended, or what comes is no TLS that this daemon speaks.
    pub(super) async fn enter(&self, stream: TcpStream, peer: IpAddr) -> io::Result<Inside> {
        let mut first = [0];
        stream.peek(&mut first).await?;
        if first[0] == HANDSHAKE {
            let accepting = TlsAcceptor::from(self.certificate.server()).accept(stream);
            return Ok(Inside::Encrypted(
                Box::new(accepting.await?),
                self.certificate.fingerprint(),
            ));
        }
        let is_welcome = self.allow_unencrypted || peer.to_canonical().is_loopback();
        Ok(if is_welcome { Inside::Plain(stream) } else { Inside::Refused(stream) })
    }
}

/// A connection that got in.
pub(super) enum Inside {
    Encrypted(Box<TlsStream<TcpStream>>, Fingerprint),
    Plain(TcpStream),
    /// It may be told why not.
    Refused(TcpStream),
}

impl Inside {
    /// The certificate by which it is encrypted.
    pub(super) fn certificate(&self) -> Option<Fingerprint> {
        match self {
            Inside::Encrypted(_, certificate) => Some(*certificate),
            Inside::Plain(_) | Inside::Refused(_) => None,
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self, Inside::Refused(_))
    }
}

/// The answer to a plain request of another machine.
pub(super) fn upgrade_required() -> Response {
    let text = "this daemon talks to other machines by TLS alone: call it with https://, or swebhdfs://, or \
                let plain clients in with `allow_unencrypted = true` in its configuration\n";
    let mut response = (StatusCode::UPGRADE_REQUIRED, text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("TLS/1.3"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade, close"));
    response.map(Body::new)
}

impl AsyncRead for Inside {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Inside::Encrypted(stream, _) => Pin::new(stream).poll_read(context, buffer),
            Inside::Plain(stream) | Inside::Refused(stream) => {
                Pin::new(stream).poll_read(context, buffer)
            }
        }
    }
}

impl AsyncWrite for Inside {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Inside::Encrypted(stream, _) => Pin::new(stream).poll_write(context, bytes),
            Inside::Plain(stream) | Inside::Refused(stream) => {
                Pin::new(stream).poll_write(context, bytes)
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Inside::Encrypted(stream, _) => Pin::new(stream).poll_flush(context),
            Inside::Plain(stream) | Inside::Refused(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Inside::Encrypted(stream, _) => Pin::new(stream).poll_shutdown(context),
            Inside::Plain(stream) | Inside::Refused(stream) => {
                Pin::new(stream).poll_shutdown(context)
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Inside::Encrypted(stream, _) => Pin::new(stream).poll_write_vectored(context, slices),
            Inside::Plain(stream) | Inside::Refused(stream) => {
                Pin::new(stream).poll_write_vectored(context, slices)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
