//! An agent that pays claims after a person's consent, as a program of its own: `tests/it/adoption.rs` edits this text and
//! compiles what comes out. It is told what to do on its standard input, a line a command, and answers a line each.

use std::io::{BufRead as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether::engine::{EngineBuilder, OnUnfit};
use aether::postgres::PostgresOptions;
use aether::prelude::*;
use aether::store::RunFilter;

/// Looks up the rate of a claim.
#[step(effect = "read")]
async fn rate(_cx: &mut StepCx, claim: u32) -> Result<u32> {
    Ok(claim * 2)
}

/// Whether payments that are begun wait.
static STALLED: AtomicBool = AtomicBool::new(false);

/// Whether a drain is complete.
static DRAINED: AtomicBool = AtomicBool::new(false);

/// Pays a claim.
#[step(effect = "tool")]
async fn pay(_cx: &mut StepCx, claim: u32) -> Result<String> {
    note("pay", claim)?;
    while STALLED.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(format!("paid {claim}"))
}

/// Takes a payment back.
#[step(effect = "tool", idempotent)]
async fn give_back(_cx: &mut StepCx, claim: u32, _reserved: Option<u32>) -> Result<()> {
    note("give_back", claim)
}

/// Reserves the money of a claim.
#[step(effect = "tool", compensate = give_back)]
async fn reserve(_cx: &mut StepCx, claim: u32) -> Result<u32> {
    note("reserve", claim)?;
    Ok(claim)
}

/// One line for each call of a body that changes the world, in a file beside the database.
fn note(what: &str, claim: u32) -> Result<()> {
    let path = std::env::var("AGENT_CALLS")?;
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    // In one write: other threads and processes add lines too.
    file.write_all(format!("{what} {claim} {}\n", std::process::id()).as_bytes())?;
    Ok(())
}

/// Asks a person, for at most a month.
#[workflow]
async fn consent(cx: &mut Cx, claim: u32) -> Result<bool> {
    let month = Duration::from_secs(30 * 24 * 3600);
    let given = cx
        .race((
            async |cx: &mut Cx| {
                // before the question
                let asked = cx.approval("pay").details(&claim).await;
                asked.is_ok_and(|asked| asked.granted().is_ok())
            },
            async |cx: &mut Cx| {
                cx.sleep(month).await;
                false
            },
        ))
        .await;
    Ok(given)
}

/// Pays a claim when a person agrees.
#[workflow]
async fn claim(cx: &mut Cx, number: u32) -> Result<String> {
    reserve(cx, number).await?;
    // before the consent
    let given = consent(cx, number).await?;
    if given { Ok(pay(cx, number).await?) } else { Ok("nothing".to_owned()) }
}

/// An engine on the file or the database at this address.
fn on(address: &str) -> EngineBuilder {
    let kind = std::env::var("AETHER_STORE").unwrap_or_default();
    if !kind.starts_with("postgres") {
        return Engine::builder().sqlite(address);
    }
    let options = PostgresOptions::new();
    let options = options.portable(kind == "postgres-portable").pooler(kind == "postgres-pgbouncer");
    // A server does not notice that a process is dead: its lease has to pass.
    Engine::builder().postgres_with(address, options).lease(Duration::from_secs(3))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (address, choice) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let on_unfit = if choice == "refuse" { OnUnfit::Refuse } else { OnUnfit::Park };
    let short = Duration::from_millis(20);
    // One that looks seldom still takes what is its own before others do.
    let poll = if choice == "seldom" { Duration::from_secs(1) } else { short };
    let builder = on(&address).poll_interval(poll).eviction_grace(short).on_unfit(on_unfit);
    let builder = if choice == "client" { builder.client() } else { builder };
    let engine = match builder.start().await {
        Ok(engine) => engine,
        Err(error) => return Ok(println!("refused {error}")),
    };
    println!("up");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match obey(&engine, &words).await {
            Ok(answer) => println!("{}", answer.replace('\n', " / ")),
            Err(error) => println!("error {}", error.to_string().replace('\n', " / ")),
        }
    }
    engine.shutdown().await?;
    Ok(())
}

async fn obey(engine: &Engine, words: &[&str]) -> anyhow::Result<String> {
    match *words {
        ["start", number] => {
            let handle = start(engine, number.parse()?).await?;
            Ok(handle.id().to_string())
        }
        ["many", count] => {
            for number in 0..count.parse()? {
                start(engine, number).await?;
            }
            Ok("started".into())
        }
        ["waiting"] => Ok(engine.count(RunFilter::new().status(aether::view::Status::Waiting)).await?.to_string()),
        ["completed"] => Ok(engine.count(RunFilter::new().status(aether::view::Status::Completed)).await?.to_string()),
        ["status", run] => Ok(engine.find(run).await?.status().await?.to_string()),
        ["approve", run] => {
            engine.approve(&run.parse()?, "pay", "ann").await?;
            Ok("approved".into())
        }
        ["cancel", run] => {
            engine.cancel(&run.parse()?, "not wanted", "ann").await?;
            Ok("asked".into())
        }
        ["terminate", run] => {
            engine.terminate(&run.parse()?, "not wanted", "ann").await?;
            Ok("asked".into())
        }
        ["end", run] => Ok(format!("{:?}", engine.find(run).await?.end().await?)),
        ["parked"] => Ok(engine.count(RunFilter::new().parked(true)).await?.to_string()),
        ["why", run] => {
            let parked = engine.parked(RunFilter::new()).await?.runs;
            Ok(parked.iter().find(|parked| parked.run.as_str() == run).map(ToString::to_string).unwrap_or_default())
        }
        ["hold", run] => Ok(engine.why(&run.parse()?).await?.to_string()),
        ["workers"] => {
            let workers = engine.workers().await?;
            let shown = |worker: &aether::engine::WorkerView| format!("{}/{}", worker.known.codes.len(), worker.known.runs);
            Ok(workers.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        ["drain"] => Ok(format!("{:?}", engine.drain(Duration::from_secs(10)).await?)),
        ["stall"] => {
            STALLED.store(true, Ordering::SeqCst);
            Ok("stalled".into())
        }
        ["begin_drain"] => {
            let engine = engine.clone();
            tokio::spawn(async move {
                let _its_report_is_not_asked_for = engine.drain(Duration::from_secs(60)).await;
                DRAINED.store(true, Ordering::SeqCst);
            });
            Ok("draining".into())
        }
        ["drained"] => Ok(DRAINED.load(Ordering::SeqCst).to_string()),
        ["ready"] => Ok(engine.health().await.is_ready().to_string()),
        ["check"] => Ok(engine.check(RunFilter::new()).await?.to_string()),
        _ => anyhow::bail!("no such command: {words:?}"),
    }
}

async fn start(engine: &Engine, number: u32) -> anyhow::Result<RunHandle<claim>> {
    Ok(engine.start::<claim>(number).id(format!("claim-{number}")).await?)
}
