//! Encrypted connections to a real server, with certificates made here: who proves who it is gets the password, and nobody
//! else does.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use aether::engine::EngineBuilder;
use aether::error::BuildError;
use aether::postgres::PostgresOptions;
use aether::prelude::*;
use aether::store::StoreError;
use aether_pg_tests::{Cluster, Database, Stop};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use tokio::sync::OnceCell;

use super::kit::{client, in_time};
use super::messages::hello;

/// Without TLS only the superuser of the tests gets in; `shop` needs a password, `courier` a certificate.
const HBA: &str = "local all aether trust\nhostnossl all aether 127.0.0.1/32 trust\n\
    hostssl all courier 127.0.0.1/32 cert\nhostssl all all 127.0.0.1/32 scram-sha-256\n";

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key of somebody of this name, between two days.
fn issued(by: &Authority, name: &str, years: (i32, i32)) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

const VALID: (i32, i32) = (2020, 2200);

/// A server that encrypts, as the host `localhost`.
struct Server {
    cluster: Cluster,
    authority: Authority,
    folder: tempfile::TempDir,
}

impl Server {
    /// The one of tests that leave it as it is.
    async fn shared() -> &'static Self {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        SHARED.get_or_init(Self::begin).await
    }

    async fn begin() -> Self {
        let authority = authority("the authority of the database");
        let (certificate, key) = issued(&authority, "localhost", VALID);
        let options = Cluster::options().setting("ssl", "on").setting("ssl_ca_file", "authority.crt");
        let options = options.file("authority.crt", authority.pem()).file("pg_hba.conf", HBA);
        let options = options.file("server.crt", certificate).file("server.key", key);
        let server =
            Self { cluster: Cluster::begin(options), authority, folder: tempfile::tempdir().unwrap() };
        server.keep("authority.crt", &server.authority.pem());
        let roles = ["CREATE ROLE shop LOGIN PASSWORD 'right secret'", "CREATE ROLE courier LOGIN"];
        server.cluster.sql(&roles.map(str::to_owned)).await;
        server
    }

    /// A database in which both roles may make tables.
    async fn database(&self) -> Database<'_> {
        let database = self.cluster.database().await;
        let grant = format!("GRANT CREATE ON DATABASE \"{}\" TO shop, courier", database.name());
        self.cluster.sql(&[grant]).await;
        database
    }

    /// Keeps a file of the client's.
    fn keep(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn url(&self, who: &str, host: &str, database: &Database<'_>, query: &str) -> String {
        let (port, name) = (self.cluster.port(), database.name());
        let authority = self.folder.path().join("authority.crt");
        let query = query.replace("AUTHORITY", authority.to_str().unwrap());
        format!("postgres://{who}@{host}:{port}/{name}?{query}")
    }

    /// What the server presents from its next start on.
    fn presents(&self, (certificate, key): (String, String)) {
        let data = self.cluster.data_folder();
        std::fs::write(data.join("server.crt"), certificate).unwrap();
        std::fs::write(data.join("server.key"), key).unwrap();
    }
}

fn builder(url: &str) -> EngineBuilder {
    let options = PostgresOptions::new().patience(Duration::from_secs(60));
    Engine::builder().postgres_with(url, options).allow_missing_deps()
}

async fn says_hello(engine: &Engine) {
    let run = engine.start::<hello>("you".to_owned()).await.unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "hello you");
}

/// A start with this URL fails, at once, and says so.
async fn is_refused(url: &str, words: &[&str]) {
    let began = Instant::now();
    let error = match in_time(builder(url).start()).await {
        Err(BuildError::Store(error)) => error,
        other => panic!("the start should have failed: {other:?}"),
    };
    assert!(began.elapsed() < Duration::from_secs(30), "it waited for the server to become another one");
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_server_that_proves_who_it_is_gets_the_password_and_every_connection_is_encrypted() {
    let server = Server::shared().await;
    let database = server.database().await;
    let shop = "shop:right%20secret";
    for (host, query) in [
        ("localhost", "sslmode=verify-full&sslrootcert=AUTHORITY"),
        ("127.0.0.1", "sslmode=verify-ca&sslrootcert=AUTHORITY"),
        ("127.0.0.1", "sslmode=require"),
        // The default, which prefers encryption.
        ("127.0.0.1", "connect_timeout=20"),
    ] {
        let engine = builder(&server.url(shop, host, &database, query)).start().await.unwrap();
        says_hello(&engine).await;
        let admin = client(&database.url()).await;
        let sql =
            "SELECT count(*), count(*) FILTER (WHERE ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
            WHERE usename = 'shop'";
        let row = admin.query_typed(sql, &[]).await.unwrap();
        let (all, encrypted): (i64, i64) = (row[0].get(0), row[0].get(1));
        assert!(all > 1 && all == encrypted, "{query}: {encrypted} of {all} connections are encrypted");
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_who_it_is_is_refused_at_once() {
    let server = Server::shared().await;
    let database = server.database().await;
    let shop = "shop:right%20secret";
    let url = |host: &str, query: &str| server.url(shop, host, &database, query);
    let another = server.keep("another.crt", &authority("another authority").pem());
    let of_another = format!("sslmode=verify-full&sslrootcert={}", another.display());
    is_refused(&url("localhost", &of_another), &["certificate", "UnknownIssuer", "sslrootcert"]).await;
    let of_another = of_another.replace("verify-full", "verify-ca");
    is_refused(&url("localhost", &of_another), &["UnknownIssuer"]).await;
    // None of the system's authorities has signed it.
    is_refused(&url("localhost", "sslmode=verify-full"), &["certificate", "sslrootcert"]).await;
    let full = "sslmode=verify-full&sslrootcert=AUTHORITY";
    is_refused(&url("127.0.0.1", full), &["certificate", "not valid for name", "connect by a name"]).await;
    is_refused(&url("localhost", &full.replace("AUTHORITY", "/nowhere.crt")), &["/nowhere.crt"]).await;
    let wrong = server.url("shop:wrong%20secret", "localhost", &database, full);
    is_refused(&wrong, &["password authentication failed", "look at user and password"]).await;
    is_refused(&url("localhost", "sslmode=disable"), &["pg_hba.conf"]).await;
}

#[tokio::test]
async fn a_server_that_does_not_encrypt_is_refused_at_once() {
    let database = Cluster::shared().database().await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let url = format!("{}?sslmode={mode}", database.url());
        is_refused(&url, &["does not support TLS", "turn on `ssl`"]).await;
    }
    // No bytes leave the machine on a Unix socket: as libpq does, the mode is passed over.
    let socket = format!("{}?sslmode=verify-full", database.socket_url());
    let engine = builder(&socket).start().await.unwrap();
    says_hello(&engine).await;
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_certificate_of_the_clients_own_is_enough() {
    let server = Server::shared().await;
    let database = server.database().await;
    let full = "sslmode=verify-full&sslrootcert=AUTHORITY";
    let with = |name: &str, by: &Authority| {
        let (certificate, key) = issued(by, "courier", VALID);
        let certificate = server.keep(&format!("{name}.crt"), &certificate);
        let key = server.keep(&format!("{name}.key"), &key);
        let query = format!("{full}&sslcert={}&sslkey={}", certificate.display(), key.display());
        server.url("courier", "localhost", &database, &query)
    };
    let engine = builder(&with("own", &server.authority)).start().await.unwrap();
    says_hello(&engine).await;
    engine.shutdown().await.unwrap();
    is_refused(&server.url("courier", "localhost", &database, full), &["certificate"]).await;
    let half = server.url("courier", "localhost", &database, &format!("{full}&sslcert=AUTHORITY"));
    is_refused(&half, &["sslcert and sslkey are given together"]).await;
}

/// A wait for a word, which an engine appends to when it comes.
#[workflow]
async fn patient(cx: &mut Cx, _input: ()) -> Result<String> {
    let word: String = cx.signal("word").await?;
    Ok(word)
}

/// While a store is open, a server that is not trusted any more is waited for, as one that is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_outlive_a_certificate_that_has_expired() {
    let server = Server::begin().await;
    let database = server.database().await;
    let url = server.url(
        "shop:right%20secret",
        "localhost",
        &database,
        "sslmode=verify-full&sslrootcert=AUTHORITY",
    );
    let engine = builder(&url).start().await.unwrap();
    let run = engine.start::<patient>(()).await.unwrap();
    server.presents(issued(&server.authority, "localhost", (2020, 2021)));
    server.cluster.restart(Stop::Immediate);
    let sender = engine.clone();
    let id = run.id().clone();
    let sent = tokio::spawn(async move { sender.signal(&id, "word", "1", &"go").await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!sent.is_finished(), "the signal waits for a server that is trusted");
    is_refused(&url, &["expired", "valid certificate"]).await;
    server.presents(issued(&server.authority, "localhost", VALID));
    server.cluster.restart(Stop::Fast);
    in_time(sent).await.unwrap().unwrap();
    assert_eq!(in_time(run.result()).await.unwrap(), "go");
    engine.shutdown().await.unwrap();
}
