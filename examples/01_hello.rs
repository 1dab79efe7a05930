//! A workflow, a step, an engine: the smallest durable program.
//!
//! Run it twice: `cargo run --example 01_hello`. The second time the finished run is found in the store: its recorded
//! result is returned, and the step's body is not called again.

use aether::prelude::*;

/// Write a greeting.
#[step(effect = "tool")]
async fn greet(cx: &mut StepCx, name: &str) -> Result<String> {
    println!("  the body of `greet` runs, as {}", cx.idempotency_key());
    Ok(format!("Hello, {name}!"))
}

/// Greet two people.
#[workflow]
async fn hello(cx: &mut Cx, first: String, second: String) -> Result<String> {
    let one = greet(cx, &first).await?;
    let two = greet(cx, &second).await?;
    Ok(format!("{one} {two}"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::temp_dir().join("aether-01-hello.db");
    println!("journal: {} (delete it to begin again)", file.display());
    let engine = Engine::builder().sqlite(file).start().await?;
    let input = ("Ada".to_owned(), "Grace".to_owned());
    let run = engine.start::<hello>(input).id("hello-1").await?;
    println!("result: {}", run.result().await?);
    engine.shutdown().await?;
    Ok(())
}
