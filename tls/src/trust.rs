//! Which certificate a caller takes: any for a hello, which proves more than an authority could; afterwards only that of the hello; or, where nobody can sign a
//! hello, one that an authority vouches for.

use std::sync::Arc;

use parking_lot::RwLock;
use protocol::auth::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, Error, SignatureScheme,
};

use crate::error::TlsError;
use crate::provider;

/// The certificate that a daemon's hello proved; shared by who learns it and who connects. Before a hello it admits none.
#[derive(Clone, Default, Debug)]
pub struct Pin(Arc<RwLock<Option<Fingerprint>>>);

impl Pin {
    /// From now on only this certificate is taken.
    pub fn set(&self, fingerprint: Fingerprint) {
        *self.0.write() = Some(fingerprint);
    }

    fn admits(&self, fingerprint: Fingerprint) -> bool {
        *self.0.read() == Some(fingerprint)
    }
}

/// Settings of a connection for a hello and nothing else: the peer may be anybody.
pub fn for_hello() -> Arc<ClientConfig> {
    with(Verifier { pin: None })
}

/// Settings of connections to the daemon whose certificate `pin` has.
pub fn for_pinned(pin: &Pin) -> Arc<ClientConfig> {
    with(Verifier { pin: Some(pin.clone()) })
}

/// Settings of connections to servers for which an authority vouches that this machine trusts (`SSL_CERT_FILE`, `SSL_CERT_DIR`, or those of the system).
///
/// # Errors
/// [`TlsError::Authorities`] if the machine has none.
pub fn for_authorities() -> Result<ClientConfig, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let reason = found.errors.first().map(ToString::to_string);
    with_roots(found.certs).ok_or_else(|| TlsError::Authorities {
        reason: reason.unwrap_or_else(|| "none found".to_owned()),
    })
}

fn with_roots(roots: Vec<CertificateDer<'static>>) -> Option<ClientConfig> {
    let mut store = rustls::RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let settings = tls13().with_root_certificates(store.clone()).with_no_client_auth();
    (!store.is_empty()).then_some(settings)
}

fn tls13() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has suites of TLS 1.3")
}

/// The certificate that the peer showed in its handshake.
pub fn fingerprint_of(connection: &CommonState) -> Option<Fingerprint> {
    let own = connection.peer_certificates()?.first()?;
    Some(Fingerprint::of(own))
}

fn with(verifier: Verifier) -> Arc<ClientConfig> {
    let mut config = tls13()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    // Names in certificates decide nothing here, so the network need not learn them.
    config.enable_sni = false;
    Arc::new(config)
}

/// Takes certificates by their fingerprint. The handshake still proves that the peer has the certificate's key.
#[derive(Debug)]
struct Verifier {
    /// `None` takes any.
    pin: Option<Pin>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.pin {
            Some(pin) if !pin.admits(Fingerprint::of(own)) => {
                Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &provider().signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, own, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConnection, ServerConnection};

    use super::*;
    use crate::Certificate;

    /// Brings both ends through the handshake, in memory.
    fn shake(
        config: &Arc<ClientConfig>,
        certificate: &Certificate,
    ) -> Result<ClientConnection, Error> {
        let name = ServerName::try_from("any").unwrap();
        let mut client = ClientConnection::new(Arc::clone(config), name).unwrap();
        let mut server = ServerConnection::new(certificate.server()).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let (mut there, mut back) = (Vec::new(), Vec::new());
            client.write_tls(&mut there).unwrap();
            server.read_tls(&mut &there[..]).unwrap();
            server.process_new_packets()?;
            server.write_tls(&mut back).unwrap();
            client.read_tls(&mut &back[..]).unwrap();
            client.process_new_packets()?;
        }
        Ok(client)
    }

    #[test]
    fn a_hello_may_meet_anybody_and_calls_only_whom_it_proved() {
        let [one, other] = [(); 2].map(|()| Certificate::fresh().unwrap());
        let met = shake(&for_hello(), &one).unwrap();
        assert_eq!(fingerprint_of(&met), Some(one.fingerprint()));
        assert_eq!(met.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_3));
        let suite = met.negotiated_cipher_suite().map(|suite| suite.suite());
        assert_eq!(suite, Some(rustls::CipherSuite::TLS13_AES_128_GCM_SHA256));

        let pin = Pin::default();
        let pinned = for_pinned(&pin);
        let refused = Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure);
        assert_eq!(shake(&pinned, &one).unwrap_err(), refused, "no hello yet");
        pin.set(one.fingerprint());
        assert!(shake(&pinned, &one).is_ok());
        assert_eq!(shake(&pinned, &other).unwrap_err(), refused);
        pin.set(other.fingerprint());
        assert!(shake(&pinned, &other).is_ok(), "it started again, with another certificate");
    }

    #[test]
    fn an_authority_vouches_for_names() {
        let made = rcgen::generate_simple_self_signed(["any".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let own = Certificate::with(vec![made.cert.der().clone()], key).unwrap();
        let roots = Arc::new(with_roots(vec![made.cert.der().clone()]).unwrap());
        assert!(shake(&roots, &own).is_ok());
        assert!(shake(&roots, &Certificate::fresh().unwrap()).is_err());
        assert!(with_roots(Vec::new()).is_none());
    }
}
