//! A picture of the console, of a run in a file: `scripts/console-picture` makes that of the README with it.
//!
//! ```text
//! cargo run -p aether-web --example picture -- research.db "/runs/research?step=.." console.png
//! ```
//!
//! Without a third argument it serves the console of the file, read-only, until it is stopped.

use std::process::{Command, ExitCode};

use aether::prelude::*;
use aether_web::{Options, Role, User};

aether::allow_missing_deps!("it looks at runs and advances none");

#[tokio::main]
async fn main() -> ExitCode {
    match work().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("picture: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn work() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("say which file: picture <file> [<page> <picture>]")?;
    let engine = Engine::builder().sqlite(file).client().start().await?;
    let (Some(page), Some(picture)) = (args.next(), args.next()) else {
        return Ok(aether_web::serve(engine, Options::new().role(Role::Audit)).await?);
    };
    // Nobody else reaches it in the moment that it is there: it is for the browser that is started here.
    let options = Options::new().auth(|_| Some(User::new("ada").role(Role::Audit)));
    let server = aether_web::bind(engine, options).await?;
    let url = format!("http://{}{page}", server.address());
    let serving = tokio::spawn(server.run());
    let profile = tempfile::tempdir()?;
    let shot = tokio::task::spawn_blocking(move || {
        Command::new("chromium")
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--hide-scrollbars", "--window-size=1440,940"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("--screenshot={picture}"))
            .arg(url)
            .status()
    });
    let status = shot.await??;
    serving.abort();
    if status.success() { Ok(()) } else { Err(format!("chromium: {status}").into()) }
}
