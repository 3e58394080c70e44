//! Why a TLS connection failed, in a sentence for the operator.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// The reason if TLS made a connection fail, as a clause about the server: `its certificate ...`.
pub fn problem(error: &(dyn Error + 'static)) -> Option<String> {
    Some(match found(error)? {
        rustls::Error::InvalidCertificate(reason) => of_certificate(reason),
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS on this port".to_owned()
        }
        rustls::Error::PeerIncompatible(reason) => format!("it speaks no version of TLS that we do ({reason:?})"),
        other => format!("TLS failed: {other}"),
    })
}

fn of_certificate(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => "its certificate is not signed by a CA that we trust".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate belongs to another name ({reason})")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired ({reason})")
        }
        other => format!("its certificate is not accepted: {other}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateRequired => "it requires a client certificate, and we sent none".to_owned(),
        AlertDescription::UnknownCA => "our client certificate is not signed by a CA that it trusts".to_owned(),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked => {
            format!("it requires a client certificate and does not accept ours ({alert:?})")
        }
        other => format!("it ended the TLS handshake ({other:?})"),
    }
}

/// The error of rustls among the causes. An `io::Error` does not name the error that it wraps as its source.
fn found<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(current) = next {
        if let Some(tls) = current.downcast_ref::<rustls::Error>() {
            return Some(tls);
        }
        let wrapped = current.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(tls) = wrapped.and_then(|inner| found(inner)) {
            return Some(tls);
        }
        next = current.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outside")]
    struct Outside(#[source] io::Error);

    #[test]
    fn the_reason_is_found_below_other_errors() {
        let inner = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let error = Outside(io::Error::new(io::ErrorKind::InvalidData, io::Error::other(inner)));
        assert_eq!(problem(&error).as_deref(), Some("its certificate is not signed by a CA that we trust"));
        assert_eq!(problem(&Outside(io::Error::other("no TLS"))), None);
    }
}
