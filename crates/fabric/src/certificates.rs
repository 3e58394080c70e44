//! A certificate authority for the processes of one cluster: `deployctl ca`, and tests.
//!
//! ECDSA P-256 throughout, because every TLS library accepts it. A server's certificate may also be used as a client's:
//! NATS servers and etcd members connect to each other.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Beginning of the name in the CA's certificate. The rest is computed from its key: two CAs have two names, and issuing needs
/// only the key.
const NAME: &str = "deployd CA";
/// Certificates are valid a little earlier, for machines whose clocks are behind.
const EARLIER: Duration = Duration::from_secs(10 * 60);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Lifetime of a CA: 10 years.
const CA_DAYS: u32 = 3650;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot make the certificate of {name:?}")]
    Make {
        name: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("the CA cannot be used: its key or certificate is damaged, or they do not belong together")]
    Authority,
}

/// A key that signs certificates.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate and its private key, both PEM.
#[derive(Clone)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issued").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Authority {
    /// A new CA, and the text of its key.
    pub fn create(now: SystemTime) -> Result<(Self, String), Error> {
        let failed = |source| Error::Make { name: NAME.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let secret = key.serialize_pem();
        let mut params = of_authority(&key);
        (params.not_before, params.not_after) = ((now - EARLIER).into(), (now + DAY * CA_DAYS).into());
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        Ok((Self { certificate, issuer: Issuer::new(params, key) }, secret))
    }

    /// The CA of these texts.
    pub fn open(certificate: &str, key: &str) -> Result<Self, Error> {
        crate::http::install_crypto();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect();
        let secret = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| Error::Authority)?;
        let provider = rustls::crypto::ring::default_provider();
        let chain = chain.map_err(|_| Error::Authority)?;
        // Refuses a key that is not the certificate's.
        rustls::sign::CertifiedKey::from_der(chain, secret, &provider).map_err(|_| Error::Authority)?;
        let pair = KeyPair::from_pem(key).map_err(|_| Error::Authority)?;
        Ok(Self { certificate: certificate.to_owned(), issuer: Issuer::new(of_authority(&pair), pair) })
    }

    /// The CA's certificate, which clients and servers trust.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// SHA-256 of the CA's certificate in hex, to compare by eye or in a join command.
    pub fn hash(&self) -> Result<String, Error> {
        hash(&self.certificate)
    }

    /// A certificate for `name`. With `hosts` (names or addresses) it is a server's, else only a client's.
    pub fn issue(&self, name: &str, hosts: &[String], days: u32, now: SystemTime) -> Result<Issued, Error> {
        let failed = |source| Error::Make { name: name.to_owned(), source };
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(hosts.to_vec()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) = ((now - EARLIER).into(), (now + DAY * days).into());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if !hosts.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem() })
    }
}

/// SHA-256 in hex of the first certificate in a PEM text.
pub fn hash(pem: &str) -> Result<String, Error> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| Error::Authority)?;
    Ok(hash_of(&der))
}

/// The certificate in a PEM text that has this hash, as DER.
pub fn with_hash(pem: &str, hash: &str) -> Option<Vec<u8>> {
    let mut all = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
    all.find(|der| hash_of(der) == hash).map(|der| der.to_vec())
}

fn hash_of(der: &[u8]) -> String {
    hex(ring::digest::digest(&ring::digest::SHA256, der).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn of_authority(key: &KeyPair) -> CertificateParams {
    let digest = ring::digest::digest(&ring::digest::SHA256, key.public_key_raw());
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("{NAME} {}", hex(&digest.as_ref()[..4])));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        SystemTime::now()
    }

    #[test]
    fn a_ca_is_read_back_and_issues_certificates_that_it_signed() {
        let (authority, key) = Authority::create(now()).unwrap();
        let again = Authority::open(authority.certificate(), &key).unwrap();
        assert_eq!(again.hash().unwrap(), authority.hash().unwrap());
        let (other, _) = Authority::create(now()).unwrap();
        let both = format!("{}{}", other.certificate(), authority.certificate());
        let found = with_hash(&both, &authority.hash().unwrap()).unwrap();
        assert_eq!(found, CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap().to_vec());
        assert_eq!(with_hash(other.certificate(), &authority.hash().unwrap()), None);
        let issued = again.issue("nats", &["nats".to_owned(), "10.0.0.1".to_owned()], 1, now()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes()).unwrap()).unwrap();
        let verifier = rustls::client::WebPkiServerVerifier::builder(roots.into()).build().unwrap();
        let leaf = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
        let check = |name: &str, at: SystemTime| {
            use rustls::client::danger::ServerCertVerifier;
            let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let at = rustls::pki_types::UnixTime::since_unix_epoch(at);
            let name = name.to_owned().try_into().unwrap();
            verifier.verify_server_cert(&leaf, &[], &name, &[], at).is_ok()
        };
        assert!(check("nats", now()) && check("10.0.0.1", now()));
        assert!(!check("etcd", now()) && !check("10.0.0.2", now()), "other names");
        assert!(!check("nats", now() + 2 * DAY) && !check("nats", now() - DAY), "outside its days");
    }

    #[test]
    fn a_key_of_another_ca_is_refused() {
        let (first, _) = Authority::create(now()).unwrap();
        let (_, key) = Authority::create(now()).unwrap();
        assert!(matches!(Authority::open(first.certificate(), &key), Err(Error::Authority)));
        assert!(matches!(Authority::open("", &key), Err(Error::Authority)));
    }
}
