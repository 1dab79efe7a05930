//! A worker process: an engine that does what its driver says on its standard input, one line each.
//!
//! Promise: an answer is written only when the engine has answered. What is answered is numbered as it was asked.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use aether::id::RunId;
use aether::people::{Pending, Resolution, WaitFilter, Waiting};
use aether::prelude::*;
use aether::sqlite::{SqliteOptions, SqliteStore};
use aether::store::{Sent, Store, StoreError};
use aether_postgres::PostgresStore;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::flows::{Flow, LETTERS, Letter};
use super::server::Reach;
use super::world::{Deed, LeapingClock, World, monotonic, stated};

const SETTING: &str = "AETHER_CHAOS_WORKER";

/// What a worker is told when it starts.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) folder: PathBuf,
    /// A file, or how a Postgres is reached.
    pub(super) address: String,
    pub(super) lease: Duration,
    pub(super) max_pages: Option<u32>,
    /// How long callers wait for a lock.
    pub(super) lock_patience: Duration,
    /// How long bodies may take when it is asked to end.
    pub(super) patience: Duration,
    /// Seconds from the system's clock to this worker's.
    pub(super) leap: i64,
}

impl Setting {
    fn text(&self) -> String {
        let ms = |time: Duration| time.as_millis();
        format!(
            "{} {} {} {} {} {} {}",
            self.folder.display(),
            self.address,
            ms(self.lease),
            self.max_pages.unwrap_or(0),
            ms(self.lock_patience),
            ms(self.patience),
            self.leap
        )
    }

    fn read(text: &str) -> Self {
        let words: Vec<_> = text.split(' ').collect();
        let [folder, address, lease, pages, locks, patience, leap] = words[..] else { panic!("{text}") };
        let ms = |word: &str| Duration::from_millis(word.parse().unwrap());
        Self {
            folder: folder.into(),
            address: address.into(),
            lease: ms(lease),
            max_pages: Some(pages.parse().unwrap()).filter(|pages| *pages > 0),
            lock_patience: ms(locks),
            patience: ms(patience),
            leap: leap.parse().unwrap(),
        }
    }

    /// Starts a worker that writes what it complains of into a file of the folder.
    pub(super) fn spawn(&self, errors: &Path) -> (Child, ChildStdout) {
        let test = "chaos::worker::a_worker_process_does_what_its_driver_says";
        let errors = std::fs::OpenOptions::new().create(true).append(true).open(errors).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(SETTING, self.text())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        (child, output)
    }
}

/// What a worker process says.
pub(super) enum Said {
    Line(u32, String),
    Ended(u32),
}

/// Passes on what a worker writes on its standard output.
pub(super) fn listen(pid: u32, output: ChildStdout, said: &Sender<Said>) {
    for line in BufReader::new(output).lines().map_while(std::result::Result::ok) {
        if let Some(line) = line.strip_prefix("@ ") {
            let _the_driver_is_gone = said.send(Said::Line(pid, line.to_owned()));
        }
    }
    let _the_driver_is_gone = said.send(Said::Ended(pid));
}

/// Runs where the driver started this program; without a setting there is nothing to do.
#[test]
fn a_worker_process_does_what_its_driver_says() {
    let Ok(setting) = std::env::var(SETTING) else { return };
    let setting = Setting::read(&setting);
    watch_for_gaps(World::in_folder(&setting.folder), setting.lease);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(setting));
}

/// Notes when this process did not run for a while, whoever kept it from that.
fn watch_for_gaps(world: World, lease: Duration) {
    std::thread::spawn(move || {
        let mut last = monotonic();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let now = monotonic();
            if Duration::from_micros(now - last) > lease / 4 {
                world.note(Deed::Gap, None, &last.to_string());
            }
            last = now;
        }
    });
}

/// The lines of the driver.
fn lines() -> UnboundedReceiver<String> {
    let (send, receive) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
            let _nobody_reads_after_a_shutdown = send.send(line);
        }
        // The driver is gone.
        std::process::exit(3);
    });
    receive
}

/// Opens the file, or connects to the server.
async fn open(setting: &Setting) -> std::result::Result<Arc<dyn Store>, StoreError> {
    if let Some((reach, url)) = Reach::read(&setting.address) {
        return Ok(Arc::new(PostgresStore::connect_with(url, reach.options()).await?));
    }
    let options = SqliteOptions {
        busy_timeout: Duration::from_millis(200),
        lock_patience: setting.lock_patience,
        max_pages: setting.max_pages,
        ..SqliteOptions::default()
    };
    let file = setting.address.clone();
    let opened = tokio::task::spawn_blocking(|| SqliteStore::open_with(file, options)).await.unwrap()?;
    Ok(Arc::new(opened))
}

async fn begin(setting: &Setting, world: &World, clock: &LeapingClock) -> Engine {
    loop {
        let error = match open(setting).await {
            Ok(store) => {
                let engine = Engine::builder()
                    .store(store)
                    .environment(Arc::new(clock.clone()))
                    .provide(world.clone())
                    .lease(setting.lease)
                    .poll_interval(Duration::from_millis(50))
                    .eviction_grace(Duration::from_millis(100))
                    .cancel_grace(Duration::from_millis(500));
                match engine.start().await {
                    Ok(engine) => return engine,
                    Err(error) => error.to_string(),
                }
            }
            Err(error) => error.to_string(),
        };
        eprintln!("cannot begin: {error}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn work(setting: Setting) {
    let (world, clock) = (World::in_folder(&setting.folder), LeapingClock::default());
    clock.leap_to(setting.leap);
    let mut ends = signal(SignalKind::terminate()).unwrap();
    let mut lines = lines();
    let engine = begin(&setting, &world, &clock).await;
    println!("\n@ begun");
    loop {
        let line = tokio::select! {
            line = lines.recv() => line.unwrap(),
            _ = ends.recv() => break,
        };
        if let Some(seconds) = line.strip_prefix("leap ") {
            clock.leap_to(seconds.parse().unwrap());
            continue;
        }
        let (engine, world) = (engine.clone(), world.clone());
        tokio::spawn(async move {
            let (number, order) = line.split_once(' ').unwrap();
            let answer = obey(&engine, &world, order).await.unwrap_or_else(|error| format!("err {error}"));
            println!("\n@ {number} {}", answer.replace('\n', " "));
        });
    }
    world.note(Deed::Stopping, None, "-");
    let shut = engine.shutdown_within(setting.patience).await;
    world.note(Deed::Shut, None, "-");
    // Whatever still runs has time to show it.
    tokio::time::sleep(Duration::from_millis(400)).await;
    println!("\n@ shut {}", shut.map_or_else(|error| error.to_string(), |()| "ok".to_owned()));
    std::process::exit(0);
}

type Answer = std::result::Result<String, Box<dyn std::error::Error + Send + Sync>>;

/// Does what a line says.
async fn obey(engine: &Engine, world: &World, order: &str) -> Answer {
    let words: Vec<_> = order.split(' ').collect();
    let run = |name: &str| RunId::new(name);
    Ok(match words[..] {
        ["start", flow, name, n] => {
            Flow::named(flow).unwrap().start(engine, name, n.parse()?).await?;
            "ok".into()
        }
        ["signal", name, topic, id] => {
            let letters = LETTERS.iter().find(|(known, _)| *known == topic).unwrap().1;
            let (_, size) = letters.iter().find(|(known, _)| *known == id).unwrap();
            sent(engine.signal(&run(name)?, topic, id, &Letter::new(id, *size)).await?)
        }
        ["cancel", name] => sent(engine.cancel(&run(name)?, "enough", "driver").await?),
        ["people", until] => people(engine, world, until.parse()?).await?,
        _ => panic!("not an order: {order}"),
    })
}

fn sent(sent: Sent) -> String {
    match sent {
        Sent::Delivered => "ok".into(),
        Sent::Duplicate => "duplicate".into(),
        Sent::RunEnded(status) => format!("ended {status:?}"),
    }
}

/// Decides what waits for people. Until the time `until` no body can be on its way of which nobody knows.
async fn people(engine: &Engine, world: &World, until: u64) -> Answer {
    let pending = engine.all_pending(WaitFilter::for_reply()).await?.waits;
    let sure = monotonic() < until;
    let mut decided = 0;
    for pending in pending {
        let (run, actor) = (&pending.run, "operator");
        match pending.waiting {
            Waiting::Approval => engine.approve(run, &pending.command, actor).await?,
            Waiting::Resolution => {
                let Some(resolution) = resolution(engine, world, &pending, sure).await? else { continue };
                let invocation = pending.invocation.as_ref().unwrap();
                engine.resolve(run, invocation, resolution, actor).await?;
            }
            _ => continue,
        }
        let of = pending.invocation.as_ref().map_or(pending.command.to_string(), ToString::to_string);
        println!("\n@ decided {:?} {run} {of}", pending.waiting);
        decided += 1;
    }
    Ok(format!("ok {decided}"))
}

/// What an operator knows of a call: that it happened, or that it can no longer happen.
async fn resolution(
    engine: &Engine,
    world: &World,
    pending: &Pending,
    sure: bool,
) -> std::result::Result<Option<Resolution>, Box<dyn std::error::Error + Send + Sync>> {
    let invocation = pending.invocation.as_ref().unwrap();
    let ledger = engine.ledger(&pending.run).await?;
    let Some(entry) = ledger.iter().find(|entry| entry.invocation == *invocation) else { return Ok(None) };
    if world.happened(entry.key.as_str()) {
        return Ok(pending.args.as_ref().map(|args| Resolution::Happened(stated(args))));
    }
    Ok((sure && !world.may_happen(entry.key.as_str())).then_some(Resolution::DidNotHappen))
}
