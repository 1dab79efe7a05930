//! The kit does what tests rely on: databases apart, restarts that keep what was committed, a pooler that pools, and
//! nothing left behind by a killed test process.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use aether_pg_tests::{Cluster, PgBouncer, Stop};
use tokio_postgres::{Client, NoTls};

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn number(client: &Client, sql: &str) -> i64 {
    client.query_typed(sql, &[]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn a_database_is_a_copy_of_its_template_and_apart_from_others() {
    let prepare = async |url: String| {
        let client = connect(&url).await;
        client.batch_execute("CREATE TABLE t(n int8); INSERT INTO t VALUES (1)").await.unwrap();
    };
    let cluster = Cluster::shared();
    let first = cluster.database_from("with_t", prepare).await;
    let second = cluster.database_from("with_t", async |_| panic!("it is made")).await;
    connect(&first.url()).await.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    assert_eq!(number(&connect(&first.socket_url()).await, "SELECT count(*) FROM t").await, 2);
    assert_eq!(number(&connect(&second.url()).await, "SELECT count(*) FROM t").await, 1);
    let empty = cluster.database().await;
    assert!(connect(&empty.url()).await.batch_execute("SELECT FROM t").await.is_err());

    let gone = first.name().to_owned();
    drop(first);
    let next = cluster.database().await;
    let named = format!("SELECT count(*) FROM pg_database WHERE datname = '{gone}'");
    assert_eq!(number(&connect(&next.url()).await, &named).await, 0);
}

#[tokio::test]
async fn what_was_committed_is_there_after_every_kind_of_stop() {
    let cluster = Cluster::begin(Cluster::options().durable().setting("max_connections", "20"));
    let database = cluster.database().await;
    let create = "CREATE TABLE t(n int8)";
    connect(&database.url()).await.batch_execute(create).await.unwrap();
    for (rows, stop) in [(1, Stop::Immediate), (2, Stop::Killed), (3, Stop::Fast)] {
        let client = connect(&database.url()).await;
        client.batch_execute("INSERT INTO t VALUES (1)").await.unwrap();
        cluster.restart(stop);
        assert!(client.batch_execute("SELECT 1").await.is_err(), "{stop:?} breaks connections");
        let client = connect(&database.url()).await;
        assert_eq!(number(&client, "SELECT count(*) FROM t").await, rows, "{stop:?}");
        assert_eq!(
            number(&client, "SELECT setting::int8 FROM pg_settings WHERE name = 'max_connections'").await,
            20
        );
    }
}

#[tokio::test]
async fn a_pooler_gives_clients_turns_on_one_connection() {
    let database = Cluster::shared().database().await;
    let pooler = PgBouncer::before(database.cluster(), 1);
    let url = pooler.url(database.name());
    let (one, two) = (connect(&url).await, connect(&url).await);
    let pid = "SELECT pg_backend_pid()::int8";
    assert_eq!(number(&one, pid).await, number(&two, pid).await);
    pooler.restart();
    assert!(one.batch_execute("SELECT 1").await.is_err());
    assert_eq!(number(&connect(&url).await, "SELECT 1::int8").await, 1);
}

/// Runs where the test below started this program; without its request there is nothing to do.
#[tokio::test]
async fn a_process_with_a_cluster_that_waits_to_be_killed() {
    if std::env::var_os("AETHER_PG_TESTS_WAIT").is_none() {
        return;
    }
    let database = Cluster::shared().database().await;
    let pooler = PgBouncer::before(database.cluster(), 1);
    let (cluster, url) = (database.cluster(), pooler.url("postgres"));
    println!("\n@ {} {} {url}", cluster.pid().unwrap(), cluster.socket_folder().display());
    std::thread::sleep(Duration::from_secs(300));
}

#[test]
fn nothing_is_left_of_a_killed_test_process() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["a_process_with_a_cluster_that_waits_to_be_killed", "--exact", "--nocapture"])
        .env("AETHER_PG_TESTS_WAIT", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let said = lines.find_map(|line| line.strip_prefix("@ ").map(str::to_owned)).unwrap();
    let words: Vec<&str> = said.split(' ').collect();
    let server = format!("/proc/{}", words[0]);
    let port: u16 = words[2].rsplit([':', '/']).nth(1).unwrap().parse().unwrap();
    assert!(Path::new(&server).exists() && Path::new(words[1]).exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let until = Instant::now() + Duration::from_secs(180);
    let is_there = || {
        let listens = std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        listens || Path::new(&server).exists() || Path::new(words[1]).exists()
    };
    while is_there() {
        assert!(Instant::now() < until, "{said} is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}
