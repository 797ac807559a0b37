//! Permanent errors of TLS handshakes.

use std::{error::Error as StdError, io, sync::Arc};

#[cfg(feature = "nats")]
use async_nats::rustls::{AlertDescription, Error as TlsError};
#[cfg(not(feature = "nats"))]
use rustls::{AlertDescription, Error as TlsError};

/// Returns the reason if the TLS handshake failed permanently: a rejected certificate, or no common TLS version.
///
/// After a permanent failure, new connections also fail until a certificate or the configuration changes.
pub(crate) fn refusal(error: &(dyn StdError + 'static)) -> Option<String> {
    let tls = find(error)?;
    let hopeless = match tls {
        TlsError::InvalidCertificate(_)
        | TlsError::NoCertificatesPresented
        | TlsError::PeerIncompatible(_)
        | TlsError::UnsupportedNameType => true,
        TlsError::AlertReceived(alert) => matches!(
            alert,
            AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRequired
                | AlertDescription::UnknownCA
                | AlertDescription::AccessDenied
                | AlertDescription::HandshakeFailure
                | AlertDescription::ProtocolVersion
                | AlertDescription::InsufficientSecurity
        ),
        _ => false,
    };
    hopeless.then(|| tls.to_string())
}

fn find<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a TlsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The `source` of these two types skips the error that they wrap.
        let in_io = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let in_arc = error.downcast_ref::<Arc<dyn StdError + Send + Sync>>().map(|inner| &**inner);
        next = match in_io.or(in_arc) {
            Some(inner) => Some(inner as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{AlertDescription, TlsError, io, refusal};

    #[test]
    fn refused_certificate_is_found_inside_io_errors() {
        let inner =
            io::Error::new(io::ErrorKind::InvalidData, TlsError::AlertReceived(AlertDescription::UnknownCA));
        let outer = io::Error::other(inner);
        assert!(refusal(&outer).is_some_and(|said| said.contains("UnknownCA")));
    }

    #[test]
    fn lost_connection_is_not_a_refusal() {
        assert_eq!(refusal(&io::Error::from(io::ErrorKind::UnexpectedEof)), None);
        let closed = TlsError::AlertReceived(AlertDescription::CloseNotify);
        assert_eq!(refusal(&io::Error::other(closed)), None);
    }
}
