//! Money moves exactly with the outcome that says so, while connections are lost and processes are killed at every moment of
//! a transaction step.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use aether::engine::EngineBuilder;
use aether::postgres::PostgresOptions;
use aether::prelude::*;
use aether_pg_tests::{Cluster, Database, PgBouncer};

use super::kit::{client, in_time};
use super::proxy::{Cut, Proxy, Then};
use super::refusals::in_a_file;

/// What a process is told that moves money: the URL of the database, the way it is reached in, the number of debtors, the
/// transfers of each, and the file in which bodies note their calls.
const PROCESS: &str = "AETHER_TRANSFERS";

/// What only the statement of a body holds.
const MARK: &str = "INTO public.transfers";

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS public.accounts(name text PRIMARY KEY, cents int8 NOT NULL);
    CREATE TABLE IF NOT EXISTS public.transfers(no int8 GENERATED ALWAYS AS IDENTITY, cents int8 NOT NULL);
    INSERT INTO public.accounts VALUES ('ada', 1000000), ('grace', 0) ON CONFLICT DO NOTHING";

/// Runs at the same time: more than there are connections for transaction steps.
const DEBTORS: u32 = 6;

/// Processes that are killed at any moment, one after the other.
const KILLS: u32 = 8;

/// Moves money between two accounts.
#[step(effect = "transaction", timeout = "20s")]
async fn transfer(cx: &mut StepCx, notes: &str, cents: i64) -> Result<()> {
    note(notes)?;
    Ok(cx.postgres(|db| {
        db.execute("INSERT INTO public.transfers(cents) VALUES($1)", &[&cents])?;
        db.execute("UPDATE public.accounts SET cents = cents + $1 WHERE name = 'grace'", &[&cents])?;
        db.execute("UPDATE public.accounts SET cents = cents - $1 WHERE name = 'ada'", &[&cents])?;
        Ok(())
    })?)
}

/// Notes a call where no database has part in it.
fn note(notes: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    std::fs::OpenOptions::new().create(true).append(true).open(notes)?.write_all(b"call\n")
}

#[workflow]
async fn pay_back(cx: &mut Cx, notes: String, parts: u32) -> Result<()> {
    for _ in 0..parts {
        transfer(cx, &notes, 10).await?;
    }
    Ok(())
}

/// A database, and how a process reaches it.
struct Bank {
    database: Database<'static>,
    url: String,
    kind: &'static str,
    folder: tempfile::TempDir,
    _pooler: Option<PgBouncer>,
}

impl Bank {
    async fn reached(kind: &'static str) -> Self {
        let database = Cluster::shared().database().await;
        let pooler = (kind == "pooler").then(|| PgBouncer::before(Cluster::shared(), 12));
        let url = pooler.as_ref().map_or(database.url(), |pooler| pooler.url(database.name()));
        let bank = Self { database, url, kind, folder: tempfile::tempdir().unwrap(), _pooler: pooler };
        if kind == "portable" {
            let serializable = "SET default_transaction_isolation = 'serializable'";
            let sql = format!("ALTER DATABASE \"{}\" {serializable}", bank.database.name());
            Cluster::shared().sql(&[sql]).await;
        }
        // Made here, so that what is counted is there whenever a process dies.
        engine(&bank.url, kind).start().await.unwrap().shutdown().await.unwrap();
        bank
    }

    fn notes(&self) -> String {
        self.folder.path().join("notes").display().to_string()
    }

    /// Calls of bodies.
    fn calls(&self) -> usize {
        std::fs::read_to_string(self.notes()).unwrap_or_default().lines().count()
    }

    /// How many transfers there are, which is also what the journals and the accounts say.
    async fn transfers(&self) -> usize {
        let sql = "SELECT (SELECT count(*) FROM public.transfers),
            (SELECT count(*) FROM aether.journal WHERE events LIKE '%\"transaction_finished\"%'),
            (SELECT cents / 10 FROM public.accounts WHERE name = 'grace'),
            (SELECT sum(cents)::int8 FROM public.accounts)";
        let row = client(&self.database.url()).await.query_typed(sql, &[]).await.unwrap();
        let [made, recorded, moved, all]: [i64; 4] = std::array::from_fn(|column| row[0].get(column));
        assert_eq!(
            (made, moved, all),
            (recorded, recorded, 1_000_000),
            "money moves exactly with its outcome"
        );
        usize::try_from(made).unwrap()
    }

    /// A process that makes so many transfers for each debtor.
    fn process(&self, url: &str, debtors: u32, parts: u32) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["transfers::a_process_moves_money", "--exact", "--nocapture"]);
        command.env(PROCESS, format!("{url} {} {debtors} {parts} {}", self.kind, self.notes()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }
}

fn engine(url: &str, kind: &str) -> EngineBuilder {
    let options = PostgresOptions::new().portable(kind == "portable").pooler(kind == "pooler");
    let builder = Engine::builder().postgres_with(url, options);
    let builder = builder.prepare_postgres(async |db| db.batch_execute(TABLES).await);
    let builder = builder.lease(Duration::from_secs(1)).poll_interval(Duration::from_millis(20));
    builder.without::<in_a_file>().allow_missing_deps()
}

/// Runs where a test started this program; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_moves_money() {
    let Ok(told) = std::env::var(PROCESS) else { return };
    let [url, kind, debtors, parts, notes] = told.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let engine = engine(url, kind).start().await.unwrap();
    let mut runs = Vec::new();
    for debtor in 0..debtors.parse::<u32>().unwrap() {
        let run = engine.start::<pay_back>((notes.to_owned(), parts.parse().unwrap()));
        runs.push(run.id(format!("debt-{debtor}")).await.unwrap());
    }
    for run in runs {
        run.result().await.unwrap();
    }
    engine.shutdown().await.unwrap();
}

fn kill(mut process: Child) {
    process.kill().unwrap();
    let status = process.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "it had ended before");
}

/// Waits for the orderly end of a process.
fn ends(mut process: Child) {
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        if let Some(status) = process.try_wait().unwrap() {
            return assert!(status.success());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(process);
    panic!("the money is not moved in time");
}

/// Connections that break at every moment of a step: each transfer is made once, and a body is called again exactly where its
/// transaction did not commit.
async fn lost_connections(kind: &'static str) {
    let bank = Bank::reached(kind).await;
    let cuts = [None, Some(Cut::InBody), Some(Cut::BeforeCommit), Some(Cut::AfterCommit)];
    let plan: Vec<_> = cuts.into_iter().cycle().take(40).collect();
    let mut proxy = Proxy::before(&bank.url, MARK, Then::Close, plan.clone()).await;
    let engine = engine(&proxy.url(&bank.url), kind).start().await.unwrap();
    let run = engine.start::<pay_back>((bank.notes(), 40)).await.unwrap();
    in_time(run.result()).await.unwrap();
    engine.verify(run.id()).await.unwrap();
    engine.shutdown().await.unwrap();
    assert_eq!(bank.transfers().await, 40);
    let made = proxy.cuts();
    assert_eq!(made, plan.into_iter().flatten().collect::<Vec<_>>());
    let undone = made.iter().filter(|cut| **cut != Cut::AfterCommit).count();
    assert_eq!(bank.calls(), 40 + undone, "{made:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_leaves_each_transfer_exactly_once() {
    lost_connections("plain").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_in_portable_mode_leaves_each_transfer_exactly_once() {
    lost_connections("portable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_to_pgbouncer_leaves_each_transfer_exactly_once() {
    lost_connections("pooler").await;
}

/// Processes that are killed in the body, instead of the commit, and between the commit and its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_around_its_commit_leaves_each_transfer_exactly_once() {
    let bank = Bank::reached("plain").await;
    let (mut expected, mut undone) = (0, 0);
    for cut in [Cut::BeforeCommit, Cut::AfterCommit, Cut::InBody, Cut::AfterCommit, Cut::BeforeCommit] {
        let mut proxy = Proxy::before(&bank.url, MARK, Then::Hold, [None, None, Some(cut)]).await;
        let process = bank.process(&proxy.url(&bank.url), 1, 20);
        assert_eq!(in_time(proxy.next_cut()).await, cut);
        kill(process);
        bank.database.until_idle().await;
        let is_undone = cut != Cut::AfterCommit;
        expected += if is_undone { 2 } else { 3 };
        undone += usize::from(is_undone);
        assert_eq!(bank.transfers().await, expected, "{cut:?}");
    }
    ends(bank.process(&bank.url, 1, 20));
    assert_eq!((bank.transfers().await, bank.calls()), (20, 20 + undone));
}

/// Processes with many transactions under way that are killed at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_leaves_each_transfer_exactly_once() {
    let bank = Bank::reached("plain").await;
    let parts = 60;
    let all = (DEBTORS * parts) as usize;
    for round in 0..KILLS {
        let before = bank.transfers().await;
        let process = bank.process(&bank.url, DEBTORS, parts);
        until_moved(&bank, before + 15).await;
        // Another moment of a step each time.
        std::thread::sleep(Duration::from_micros(700 * u64::from(round)));
        kill(process);
        let left = bank.transfers().await;
        assert!(left < all, "the process had ended before");
    }
    ends(bank.process(&bank.url, DEBTORS, parts));
    assert_eq!(bank.transfers().await, all);
    let calls = bank.calls();
    assert!((all..=all + (KILLS * DEBTORS) as usize).contains(&calls), "{calls} calls for {all} transfers");
}

/// Waits until there are so many transfers.
async fn until_moved(bank: &Bank, transfers: usize) {
    in_time(async {
        while bank.transfers().await < transfers {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
