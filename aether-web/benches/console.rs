//! How long pages of the console take: that of a run with ten thousand events, and filters over a hundred thousand runs.
//!
//! `cargo bench -p aether-web --bench console -- [--runs 100000] [--commands 3400]` prints, for each page, the median and
//! the worst of twenty requests: time to the first byte and to the last, and the bytes.

use std::time::{Duration, Instant};

use aether::prelude::*;
use aether_web::{Options, Role, User};
use futures_util::StreamExt as _;

aether::allow_missing_deps!("none is needed");

/// Note a number.
#[step(effect = "read")]
async fn note(_cx: &mut StepCx, number: u32) -> Result<u32> {
    Ok(number)
}

/// Note many numbers.
#[workflow]
async fn count_up(cx: &mut Cx, to: u32) -> Result<u32> {
    let mut sum = 0;
    for number in 0..to {
        sum += note(cx, number).await? & 1;
    }
    Ok(sum)
}

fn option(name: &str, default: u32) -> u32 {
    let mut args = std::env::args().skip_while(|arg| arg != name);
    args.nth(1).and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let (runs, commands) = (option("--runs", 100_000), option("--commands", 3_400));
    let folder = tempfile::tempdir()?;
    let engine = Engine::builder().sqlite(folder.path().join("bench.db")).start().await?;
    let long = engine.start::<count_up>(commands).id("long").await?;
    long.result().await?;
    let events = engine.store().run(long.id()).await?.map_or(0, |run| run.next);
    let begun = Instant::now();
    let started = futures_util::stream::iter(0..runs).map(|number| {
        let engine = &engine;
        async move {
            let run = engine
                .start::<count_up>(0)
                .id(format!("job-{number}"))
                .label("team", format!("team-{}", number % 100));
            run.await?.end().await?;
            Ok::<_, Box<dyn std::error::Error>>(())
        }
    });
    let mut started = started.buffer_unordered(512);
    while let Some(done) = started.next().await {
        done?;
    }
    drop(started);
    println!("{events} events in one run, {runs} runs made in {:.1?}", begun.elapsed());
    let options = Options::new().auth(|_| Some(User::new("ada").role(Role::Audit)));
    let server = aether_web::bind(engine.clone(), options).await?;
    let url = format!("http://{}", server.address());
    let serving = tokio::spawn(server.run());
    let _had_one = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::new();
    let pages = [
        "/runs/long",
        "/runs/long?page=9",
        "/",
        "/?status=failed",
        "/?q=job-99",
        "/?q=nowhere",
        "/?label=team%3Dteam-7",
        "/?workflow=count_up&status=completed",
    ];
    for page in pages {
        let mut taken = Vec::new();
        for _ in 0..20 {
            taken.push(request(&client, &format!("{url}{page}")).await?);
        }
        taken.sort();
        let (first, last, bytes) = taken[taken.len() / 2];
        let worst = taken.iter().map(|(_, last, _)| *last).max().unwrap_or_default();
        println!(
            "{page:<40} first byte {first:>9.1?}  all {last:>9.1?}  worst {worst:>9.1?}  {bytes:>8} bytes"
        );
    }
    serving.abort();
    engine.shutdown().await?;
    Ok(())
}

/// Time to the first byte, to the last, and how many there are.
async fn request(
    client: &reqwest::Client,
    url: &str,
) -> std::result::Result<(Duration, Duration, usize), reqwest::Error> {
    let begun = Instant::now();
    let answer = client.get(url).send().await?.error_for_status()?;
    let first = begun.elapsed();
    let bytes = answer.bytes().await?.len();
    Ok((first, begun.elapsed(), bytes))
}
