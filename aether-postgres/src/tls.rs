//! Encrypted connections, and the parts of a connection string that the driver does not know.
//!
//! Promise: `sslmode` means what it means to libpq. With `verify-full` (and with `verify-ca`, apart from the name) a server
//! that cannot prove who it is gets no password.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How far the server's certificate is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Check {
    /// Not at all: the connection is only encrypted.
    #[default]
    Nothing,
    /// Who signed it.
    Authority,
    /// Who signed it, and whose it is.
    Full,
}

/// What a connection string says about encryption.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    check: Check,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

/// The settings of a connection string that are read here.
const OURS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

/// Takes what the driver does not know out of a connection string.
pub(crate) fn split(text: &str) -> Result<(tokio_postgres::Config, Tls), String> {
    let (plain, ours) = if text.starts_with("postgres://") || text.starts_with("postgresql://") {
        split_url(text)
    } else {
        split_words(text)?
    };
    let mut config: tokio_postgres::Config = plain.parse().map_err(|error| crate::error::said(&error))?;
    let mut tls = Tls::default();
    for (name, value) in ours {
        match name.as_str() {
            "sslmode" => {
                let (mode, check) = mode(&value)?;
                config.ssl_mode(mode);
                tls.check = check;
            }
            "sslrootcert" if value == "system" => {}
            "sslrootcert" => tls.roots = Some(value.into()),
            "sslcert" => tls.certificate = Some(value.into()),
            _ => tls.key = Some(value.into()),
        }
    }
    // As libpq does: a Unix socket is not encrypted, whatever the mode.
    let is_unix = |host: &Host| !matches!(host, Host::Tcp(_));
    if !config.get_hosts().is_empty() && config.get_hosts().iter().all(is_unix) {
        config.ssl_mode(SslMode::Disable);
    }
    // As libpq does: who names an authority wants it checked.
    if tls.roots.is_some() && tls.check == Check::Nothing && config.get_ssl_mode() == SslMode::Require {
        tls.check = Check::Authority;
    }
    Ok((config, tls))
}

fn mode(name: &str) -> Result<(SslMode, Check), String> {
    Ok(match name {
        "disable" => (SslMode::Disable, Check::Nothing),
        "allow" | "prefer" => (SslMode::Prefer, Check::Nothing),
        "require" => (SslMode::Require, Check::Nothing),
        "verify-ca" => (SslMode::Require, Check::Authority),
        "verify-full" => (SslMode::Require, Check::Full),
        other => {
            return Err(format!(
                "sslmode is `{other}`: expected disable, allow, prefer, require, verify-ca or verify-full"
            ));
        }
    })
}

type Named = Vec<(String, String)>;

fn split_url(text: &str) -> (String, Named) {
    let Some((before, query)) = text.split_once('?') else { return (text.to_owned(), Vec::new()) };
    let (mut kept, mut ours) = (Vec::new(), Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((name, value)) if OURS.contains(&name) => {
                ours.push((name.to_owned(), percent_decoded(value)))
            }
            _ => kept.push(pair),
        }
    }
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    (format!("{before}{query}"), ours)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &behind[2..] } else { behind };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Splits `name=value name='quoted value'`.
fn split_words(text: &str) -> Result<(String, Named), String> {
    let (mut kept, mut ours) = (String::new(), Vec::new());
    if let Some((scheme, _)) = text.split_once("://")
        && scheme.chars().all(|c| c.is_ascii_alphanumeric())
    {
        return Err(format!(
            "the connection string begins with `{scheme}://`: write postgres:// or postgresql://"
        ));
    }
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once('=').ok_or("the connection string has a name without `=`")?;
        let (name, behind) = (name.trim(), behind.trim_start());
        let (value, after) = word(behind).ok_or("the connection string has a quote without an end")?;
        if OURS.contains(&name) {
            ours.push((name.to_owned(), value));
        } else {
            let raw = behind.len() - after.len();
            kept.push_str(&format!("{name}={} ", &behind[..raw]));
        }
        rest = after.trim_start();
    }
    Ok((kept, ours))
}

/// The first value, and what follows it.
fn word(text: &str) -> Option<(String, &str)> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut chars = text.char_indices().skip(usize::from(quoted));
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.push(chars.next()?.1),
            '\'' if quoted => return Some((value, &text[at + 1..])),
            c if !quoted && c.is_whitespace() => return Some((value, &text[at..])),
            c => value.push(c),
        }
    }
    (!quoted).then_some((value, ""))
}

impl Tls {
    /// What the driver needs to encrypt.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier(provider)?);
        let config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| format!("sslkey: {error}"))?;
                builder.with_client_auth_cert(certificates(certificate, "sslcert")?, key)
            }
            (None, None) => Ok(builder.with_no_client_auth()),
            _ => return Err("sslcert and sslkey are given together or not at all".into()),
        };
        config.map(MakeRustlsConnect::new).map_err(|error| format!("sslcert: {error}"))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, String> {
        if self.check == Check::Nothing {
            return Ok(Arc::new(Lenient { inner: None, provider }));
        }
        let strict: Arc<dyn ServerCertVerifier> = match &self.roots {
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, "sslrootcert")? {
                    roots.add(certificate).map_err(|error| format!("sslrootcert: {error}"))?;
                }
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| format!("sslrootcert: {error}"))?
            }
            None => Arc::new(
                rustls_platform_verifier::Verifier::new(provider.clone())
                    .map_err(|error| error.to_string())?,
            ),
        };
        Ok(match self.check {
            Check::Full => strict,
            _ => Arc::new(Lenient { inner: Some(strict), provider }),
        })
    }
}

fn certificates(path: &PathBuf, name: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(format!("{name}: {} holds no certificate", path.display())),
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{name}: {}: {error}", path.display())),
    }
}

/// Lets a certificate pass that is another host's, and without an inner verifier any certificate, as libpq does for the
/// modes that ask for no more.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_libpq_are_read_from_urls_and_words() {
        let url =
            "postgres://ann@db:5433/shop?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem";
        let words = "host=db port=5433 user=ann dbname=shop sslmode=verify-full sslrootcert='/etc/ca.pem' \
                     connect_timeout=3";
        for text in [url, words] {
            let (config, tls) = split(text).unwrap();
            assert_eq!((config.get_dbname(), config.get_ports()), (Some("shop"), &[5433][..]));
            assert_eq!((config.get_ssl_mode(), tls.check), (SslMode::Require, Check::Full));
            assert_eq!(tls.roots, Some("/etc/ca.pem".into()));
            assert_eq!(config.get_connect_timeout().map(|time| time.as_secs()), Some(3));
        }
    }

    #[test]
    fn a_named_authority_is_checked_and_the_default_is_to_prefer_encryption() {
        let check = |text: &str| split(text).map(|(config, tls)| (config.get_ssl_mode(), tls.check));
        assert_eq!(check("host=a sslmode=require sslrootcert=ca"), Ok((SslMode::Require, Check::Authority)));
        assert_eq!(check("host=a sslmode=require"), Ok((SslMode::Require, Check::Nothing)));
        assert_eq!(check("host=a"), Ok((SslMode::Prefer, Check::Nothing)));
        assert!(check("host=a sslmode=strict").unwrap_err().contains("verify-full"));
        assert!(check("host='a").is_err());
    }

    #[test]
    fn a_missing_certificate_file_is_named() {
        let (_, tls) = split("host=a sslmode=verify-full sslrootcert=/nowhere/ca.pem").unwrap();
        assert!(tls.connector().err().unwrap().contains("/nowhere/ca.pem"));
        assert!(split("host=a sslmode=require").unwrap().1.connector().is_ok());
    }
}
