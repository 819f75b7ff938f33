//! The certificate of a daemon: made at its start and never written down, or from an operator's files.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use protocol::auth::Fingerprint;
use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sys::fs::PrivateError;

use crate::error::TlsError;
use crate::provider;

/// Name in a certificate that a daemon makes. Nothing is decided by it: a hello vouches for the certificate.
const NAME: &str = "hanno";

/// A certificate with its private key. Cheap to clone.
#[derive(Clone)]
pub struct Certificate {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
}

impl Certificate {
    /// A new one, whose key is only in this process.
    ///
    /// # Errors
    /// [`TlsError::Make`].
    pub fn fresh() -> Result<Self, TlsError> {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(TlsError::Make)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        Certificate::with(vec![cert.der().clone()], key).map_err(TlsError::Setup)
    }

    /// The chain in `certificate` (PEM, the daemon's own first) and the private key in `key` (PEM), which only its owner may read.
    ///
    /// # Errors
    /// [`TlsError`] names the file.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let fail = |what, path: &Path| {
            let path = path.to_owned();
            move |reason| TlsError::File { what, path, reason }
        };
        let what = "a certificate";
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(fail(what, certificate))?;
        if chain.is_empty() {
            return Err(fail(what, certificate)(pem::Error::NoItemsFound));
        }
        let file = sys::fs::open_private(key).map_err(|error| match error {
            // What is no key is not to be protected.
            PrivateError::Exposed => match PrivateKeyDer::from_pem_file(key) {
                Ok(_) => TlsError::Exposed { path: key.to_owned() },
                Err(reason) => fail("a private key", key)(reason),
            },
            PrivateError::System(error) => fail("a private key", key)(pem::Error::Io(error)),
        })?;
        let private = PrivateKeyDer::from_pem_reader(file).map_err(fail("a private key", key))?;
        Certificate::with(chain, private).map_err(|reason| TlsError::Unusable {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            reason,
        })
    }

    /// From its chain, the daemon's own first, and its key.
    pub(crate) fn with(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let fingerprint = chain.first().map(|own| Fingerprint::of(own));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // A connection is kept for long: what would resume it is not worth its bytes.
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let fingerprint = fingerprint.ok_or(rustls::Error::NoCertificatesPresented)?;
        Ok(Certificate { config: Arc::new(config), fingerprint })
    }

    /// What identifies it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Settings for the daemon's end of a connection.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Certificate").field(&self.fingerprint).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_start_has_a_certificate_of_its_own() {
        let [one, other] = [(); 2].map(|()| Certificate::fresh().unwrap());
        assert_ne!(one.fingerprint(), other.fingerprint());
    }

    #[test]
    fn files_are_taken_and_what_is_wrong_with_them_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let [one, other] = [(); 2]
            .map(|()| rcgen::generate_simple_self_signed(["nn.example".to_owned()]).unwrap());
        let put = |name: &str, text: String, mode| {
            fs::write(at(name), text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        put("certificate", one.cert.pem() + &other.cert.pem(), 0o644);
        put("key", one.signing_key.serialize_pem(), 0o600);
        put("readable", one.signing_key.serialize_pem(), 0o604);
        put("other", other.signing_key.serialize_pem(), 0o600);
        put("nothing", "nothing\n".to_owned(), 0o600);
        let read =
            |certificate: &str, key: &str| Certificate::from_files(&at(certificate), &at(key));
        let taken = read("certificate", "key").unwrap();
        assert_eq!(taken.fingerprint(), Fingerprint::of(one.cert.der()));
        assert!(matches!(read("certificate", "readable"), Err(TlsError::Exposed { .. })));
        assert!(matches!(read("certificate", "other"), Err(TlsError::Unusable { .. })));
        for (certificate, key, named) in [
            ("nothing", "key", "nothing"),
            ("absent", "key", "absent"),
            ("certificate", "nothing", "nothing"),
            ("certificate", "certificate", "certificate"),
        ] {
            let Err(TlsError::File { path, .. }) = read(certificate, key) else {
                panic!("{certificate} and {key} are taken")
            };
            assert_eq!(path, at(named));
        }
    }
}
