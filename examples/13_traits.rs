//! A step that sends through a trait: the program decides which mailer that is, and a missing one is found at the start.
//!
//! Run: `cargo run --example 13_traits`. It starts an engine without a mailer, which is refused, and then one that writes
//! the letters into a folder.

use std::path::PathBuf;

use aether::prelude::*;

/// A way to send a letter. Steps take it as `Box<dyn Mailer>`; they are not generic over it.
trait Mailer: Send + Sync {
    fn send(&self, key: &str, to: &str, text: &str) -> std::io::Result<()>;
}

/// Writes each letter into a file, under the key of its call.
struct Folder(PathBuf);

impl Mailer for Folder {
    fn send(&self, key: &str, to: &str, text: &str) -> std::io::Result<()> {
        let name = key.replace([':', '/'], ".");
        std::fs::write(self.0.join(name), format!("{to}: {text}\n"))
    }
}

/// Where letters come from.
struct Sender(&'static str);

/// Send a letter. The same key writes the same file, so a repeat does no harm.
#[step(effect = "tool", idempotent, needs(Sender))]
async fn send_letter(cx: &mut StepCx, to: &str, text: &str) -> Result<()> {
    let mailer = cx.dep::<Box<dyn Mailer>>()?;
    let text = signed(cx, text)?;
    Ok(mailer.send(cx.idempotency_key().as_str(), to, &text)?)
}

/// What this takes is not seen in the step's body, so `needs` declares it.
fn signed(cx: &StepCx, text: &str) -> Result<String> {
    Ok(format!("{text} Yours, {}", cx.dep::<Sender>()?.0))
}

/// Remind everybody.
#[workflow]
async fn remind(cx: &mut Cx, people: Vec<String>) -> Result<usize> {
    for person in &people {
        send_letter(cx, person, "your book is due.").await?;
    }
    Ok(people.len())
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let incomplete = Engine::builder().memory().provide(Sender("the library"));
    match incomplete.start().await {
        Ok(_) => println!("an engine without a mailer has started"),
        Err(error) => println!("refused: {error}\n"),
    }
    let engine = Engine::builder()
        .memory()
        .provide(Sender("the library"))
        .provide::<Box<dyn Mailer>>(Box::new(Folder(folder.path().into())))
        .start()
        .await?;
    let run = engine.start::<remind>(vec!["ada".to_owned(), "grace".to_owned()]).id("reminder-1").await?;
    println!("letters: {}", run.result().await?);
    for letter in std::fs::read_dir(folder.path())? {
        print!("  {}", std::fs::read_to_string(letter?.path())?);
    }
    engine.shutdown().await?;
    Ok(())
}
