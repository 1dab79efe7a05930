//! A chat that streams to a browser page, and survives `kill -9` in the middle of a sentence.
//!
//! Run: `cargo run --example chat`, open the address that it prints, ask something, kill it, and start it again with the
//! same command: the page connects again by itself, and goes on with the answer. No word is shown twice.
//!
//! Without more it asks a scripted model on loopback. `OPENAI_API_KEY`, or `OPENAI_BASE_URL` for a server of one's own,
//! and `OPENAI_MODEL` name a real one. `--db FILE`, `--port N` and `--pause MILLISECONDS` (of the scripted model before
//! each word) are for tests.

mod offline_model;
mod service;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use aether::llm::{ChatMessage, OpenAiClient};
use aether::prelude::*;
use serde::{Deserialize, Serialize};

/// A question, with what was said before it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Questions and answers in turn.
    pub(crate) before: Vec<ChatMessage>,
    pub(crate) text: String,
}

/// Answer a question. What the model says is seen while it says it; what counts is what it has said in the end.
#[workflow]
pub(crate) async fn reply(cx: &mut Cx, turn: Turn) -> Result<String> {
    let mut question = cx.llm("reply").system("You are brief.");
    for said in &turn.before {
        question = question.message(said.clone());
    }
    Ok(question.user(&turn.text).stream("reply").text().await?)
}

struct Options {
    db: PathBuf,
    port: u16,
    pause: Duration,
}

fn options() -> std::result::Result<Options, Box<dyn Error>> {
    let mut options = Options { db: "chat.db".into(), port: 3000, pause: Duration::from_millis(120) };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or_else(|| format!("`{name}` needs a value"))?;
        match name.as_str() {
            "--db" => options.db = value.into(),
            "--port" => options.port = value.parse().map_err(|_| format!("`{value}` is no port"))?,
            "--pause" => {
                let pause = value.parse().map_err(|_| format!("`{value}` is no number of milliseconds"))?;
                options.pause = Duration::from_millis(pause);
            }
            _ => return Err(format!("unknown option `{name}`: there are --db, --port and --pause").into()),
        }
    }
    Ok(options)
}

async fn model(pause: Duration) -> std::result::Result<OpenAiClient, Box<dyn Error>> {
    if std::env::var_os("OPENAI_API_KEY").is_some() || std::env::var_os("OPENAI_BASE_URL").is_some() {
        return Ok(OpenAiClient::from_env()?);
    }
    Ok(OpenAiClient::new(offline_model::start(pause).await?, "", offline_model::NAME))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let Options { db, port, pause } = options()?;
    // A killed process holds its runs until its lease has run out.
    let lease = Duration::from_secs(2);
    let engine = Engine::builder().sqlite(&db).model(model(pause).await?).lease(lease).start().await?;
    let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    println!("http://{}/", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, service::router(engine.clone())).into_future());
    aether::signals::run_until_stopped(engine, Duration::from_secs(10)).await?;
    Ok(())
}
