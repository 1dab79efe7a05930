//! What can go wrong between the store and its server, and what callers are told about it.
//!
//! Promise: every failure of the driver becomes the [`StoreError`] that says what to do about it, and one [`Failure`] that
//! says whether the same statement may be tried again.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};

use aether_core::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why an operation did not work.
#[derive(Debug)]
pub(crate) enum OpError {
    /// The operation was refused, for good.
    Refused(StoreError),
    /// The driver or the server failed.
    Driver(Error),
    /// A stored row does not hold what it must.
    Row(String),
}

impl From<Error> for OpError {
    fn from(error: Error) -> Self {
        Self::Driver(error)
    }
}

impl From<StoreError> for OpError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl OpError {
    /// What the caller is told.
    pub(crate) fn into_store_error(self, store: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Driver(error) => translate(&error, store),
            Self::Row(reason) => StoreError::Corrupt { store: store.into(), reason },
        }
    }
}

/// Whether the answer to an earlier try of a request was lost, so that the try may have been carried out.
#[derive(Debug, Default)]
pub(crate) struct LostAnswer(AtomicBool);

impl LostAnswer {
    /// Whether one was lost.
    pub(crate) fn happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Passes an answer on, and remembers where it was lost.
    pub(crate) fn noting<T>(&self, answer: Result<T, OpError>) -> Result<T, OpError> {
        if is_lost(&answer) {
            self.0.store(true, Ordering::Relaxed);
        }
        answer
    }
}

/// Whether the connection broke before there was an answer.
pub(crate) fn is_lost<T>(answer: &Result<T, OpError>) -> bool {
    matches!(answer, Err(OpError::Driver(error)) if failure(error) == Failure::Lost)
}

/// What a failed statement means for another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Nothing was written: another transaction was in the way. The same statement may work at once.
    Conflict,
    /// Nothing was written: another transaction holds a lock, or the server took too long.
    Slow,
    /// Nothing was written: the server refuses everything for the moment (a full disk, a standby, a restart).
    Moment,
    /// The connection is gone, and with it the answer: the statement may have been carried out.
    Lost,
    /// Nothing was written: a pooler stands in between and knows no prepared statements.
    Pooler,
    /// Nothing was written: the values themselves are refused.
    Data,
    /// Nothing was written, and another try changes nothing.
    Final,
}

/// Which failure it is.
pub(crate) fn failure(error: &Error) -> Failure {
    let Some(code) = error.code() else {
        return match error.source() {
            // A value that the driver cannot send: its request was never made.
            Some(_) if error.to_string().starts_with("error serializing parameter") => Failure::Data,
            _ if error.to_string() == "error encoding message to server" => Failure::Data,
            _ if is_configuration(error) => Failure::Final,
            _ => Failure::Lost,
        };
    };
    match code.code() {
        "40001" | "40P01" | "23505" => Failure::Conflict,
        "55P03" | "57014" | "25P03" | "25P04" => Failure::Slow,
        "26000" | "42P05" => Failure::Pooler,
        "25006" | "53000" | "53100" | "53200" | "53300" | "53400" | "57P03" | "58030" | "55000" => {
            Failure::Moment
        }
        // 40003: the server does not say whether the transaction was committed.
        "40003" | "57P01" | "57P02" | "57P05" => Failure::Lost,
        // A changed result of a prepared statement, after a migration: prepared anew it works.
        "0A000" if is_stale_plan(error) => Failure::Lost,
        code if code.starts_with("08") => Failure::Lost,
        code if code.starts_with("22") || code.starts_with("54") || code == "23514" => Failure::Data,
        _ => Failure::Final,
    }
}

/// Whether a prepared statement gives something else than when it was prepared. The name of the place in the server's code is
/// in no other language.
fn is_stale_plan(error: &Error) -> bool {
    error.as_db_error().is_some_and(|db| {
        db.routine() == Some("RevalidateCachedQuery") || db.message().contains("cached plan")
    })
}

/// Whether an error that is final for a request passes for what must be written: rights that are granted, tables that are
/// renamed back, a server or pooler that has trouble of its own.
pub(crate) fn may_pass(error: &Error) -> bool {
    let code = error.code().map_or("", |code| code.code());
    matches!(code, "42501" | "42P01" | "3F000") || code.starts_with("XX") || code.starts_with("58")
}

/// Whether an error may be due to a part of what a statement reads and writes: a damaged page, or more than the server has
/// memory for. The rest may be written.
pub(crate) fn is_of_a_part(error: &Error) -> bool {
    let code = error.code().map_or("", |code| code.code());
    code.starts_with("XX") || code.starts_with("58") || code == "53200"
}

/// Whether the statement of a batch was to change a ledger row that is not there; see [`crate::writer::sql`].
pub(crate) fn is_missing(error: &Error) -> bool {
    error.code().is_some_and(|code| code.code() == "22012")
}

/// What the driver says of a server that takes no writes, when it connects to one.
const NO_WRITES: &str = "database does not allow writes";

/// Whether the server takes no writes: it is a standby, or was set so. Another connection may lead to another server.
pub(crate) fn takes_no_writes(error: &Error) -> bool {
    match error.code() {
        Some(code) => code.code() == "25006",
        None => error.source().is_some_and(|source| source.to_string() == NO_WRITES),
    }
}

/// What the driver says where encryption is demanded and the server has none.
const NO_TLS: &str = "server does not support TLS";

/// Whether the connection string or the account is wrong, so that the next try fails as well.
fn is_configuration(error: &Error) -> bool {
    let text = said(error);
    ["invalid connection string", "invalid configuration", "authentication error"]
        .iter()
        .any(|start| text.starts_with(start))
}

/// Why a server cannot be talked to as the connection string demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Distrust {
    /// It does not encrypt.
    Plain,
    /// Nobody who is trusted has signed its certificate.
    Issuer,
    /// Its certificate is another host's.
    Name,
    /// Its certificate is not valid for another reason.
    Certificate,
}

/// Why the server is not trusted, where that is what went wrong.
fn distrust(error: &Error) -> Option<Distrust> {
    use rustls::CertificateError::{NotValidForName, NotValidForNameContext, UnknownIssuer};
    if error.code().is_some() || error.to_string() != "error performing TLS handshake" {
        return None;
    }
    let source = error.source()?;
    if source.to_string() == NO_TLS {
        return Some(Distrust::Plain);
    }
    let inner = source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>())? {
        rustls::Error::InvalidCertificate(UnknownIssuer) => Some(Distrust::Issuer),
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            Some(Distrust::Name)
        }
        rustls::Error::InvalidCertificate(_) => Some(Distrust::Certificate),
        _ => None,
    }
}

/// Whether the server does not encrypt, or does not prove who it is. A store that is being opened does not wait for that to
/// change; one that is open does, because certificates are replaced while it works.
pub(crate) fn is_distrust(error: &Error) -> bool {
    distrust(error).is_some()
}

/// What the server or the driver said, with all causes.
pub(crate) fn said(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        let detail = db.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        return format!("{}{detail} [{}]", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

/// The variant that fits what the driver said.
pub(crate) fn translate(error: &Error, store: &str) -> StoreError {
    let (store, said) = (store.to_owned(), said(error));
    let reason = match advice(error) {
        Some(advice) => format!("{said}; {advice}"),
        None => said,
    };
    match error.code().map(SqlState::code) {
        _ if takes_no_writes(error) => StoreError::ReadOnly { store, reason },
        Some("53100") => StoreError::Full { store, reason },
        Some("55P03" | "40001" | "40P01" | "57014") => StoreError::Locked { store, reason },
        Some("XX001" | "XX002") => StoreError::Corrupt { store, reason },
        _ if failure(error) == Failure::Data => {
            StoreError::Unencodable { what: "a value for Postgres".into(), reason }
        }
        _ => StoreError::Unavailable { store, reason },
    }
}

/// What to do about an error, where that can be said.
fn advice(error: &Error) -> Option<&'static str> {
    match distrust(error) {
        Some(Distrust::Plain) => {
            return Some(
                "turn on `ssl` in postgresql.conf, or take sslmode=disable where nobody listens in between",
            );
        }
        Some(Distrust::Issuer) => {
            return Some(
                "name a file with the certificate of the server's authority: sslrootcert=/etc/ssl/db-ca.pem",
            );
        }
        Some(Distrust::Name) => {
            return Some("connect by a name that the certificate holds, or have it issued for this one");
        }
        Some(Distrust::Certificate) => return Some("give the server a valid certificate"),
        None => {}
    }
    if takes_no_writes(error) {
        return Some(
            "this is a standby, or is set to read-only: name the primary, or all hosts with \
             target_session_attrs=read-write in the connection string",
        );
    }
    let Some(code) = error.code() else { return advice_of_the_driver(&said(error)) };
    Some(match code.code() {
        "26000" | "42P05" => {
            "a pooler stands between the store and Postgres: set PostgresOptions::pooler(true), or let it keep prepared \
             statements (PgBouncer: max_prepared_statements)"
        }
        "53300" => {
            "give PostgresOptions::connections a smaller number, raise max_connections, or use a pooler"
        }
        "53100" => "make room on the server's disk; what is queued is written then",
        "28P01" | "28000" => "look at user and password of the connection string, and at pg_hba.conf",
        "3D000" => "create the database first: CREATE DATABASE, or createdb",
        "42501" => {
            "grant what is missing, as the owner of the schema: GRANT USAGE ON SCHEMA .. TO ..; GRANT SELECT, INSERT, \
             UPDATE, DELETE ON ALL TABLES IN SCHEMA .. TO ..; to create or migrate the tables also GRANT CREATE ON \
             DATABASE .. TO .."
        }
        "42P01" | "3F000" | "42703" => {
            "the store's tables were changed or dropped while it was open; or a pooler stands between the store and \
             Postgres: set PostgresOptions::pooler(true)"
        }
        "22021" => "a text holds the character U+0000, which Postgres cannot store",
        _ => return None,
    })
}

/// What to do about an error that the server did not send.
fn advice_of_the_driver(said: &str) -> Option<&'static str> {
    Some(match said {
        _ if said.starts_with("error connecting to server") => {
            "look whether the server runs, and whether host and port of the connection string are its own"
        }
        _ if said.ends_with("password missing") => {
            "the server asks for a password and the connection string has none: postgres://user:password@host/database"
        }
        _ if said.ends_with("host and hostaddr are missing") => {
            "the connection string is empty or names no host: postgres://user:password@host:5432/database"
        }
        _ => return None,
    })
}

/// The store is closed.
pub(crate) fn gone(store: &str) -> StoreError {
    StoreError::Closed { store: store.into() }
}
