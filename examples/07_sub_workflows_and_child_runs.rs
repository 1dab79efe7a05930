//! Workflows call workflows: inline, as a scope of the same run, or as a child run with an id and a journal of its own.
//!
//! Run: `cargo run --example 07_sub_workflows_and_child_runs`.

use aether::prelude::*;
use aether::store::RunFilter;

/// Count the letters of a word.
#[step(effect = "read")]
async fn letters(_cx: &mut StepCx, word: &str) -> Result<usize> {
    Ok(word.chars().count())
}

/// Measure one chapter.
#[workflow]
async fn chapter(cx: &mut Cx, text: String) -> Result<usize> {
    let mut count = 0;
    for word in text.split_whitespace() {
        count += letters(cx, word).await?;
    }
    Ok(count)
}

/// Measure a book: the preface here, every chapter as a run of its own.
#[workflow]
async fn book(cx: &mut Cx, preface: String, chapters: Vec<String>) -> Result<usize> {
    // Inline: part of this run's journal, called like a function.
    let mut count = chapter(cx, preface).await?;
    // Child runs: started once, under an id that follows from this command, so that a crash starts no second one.
    let children = cx.each(chapters, async |cx: &mut Cx, text| cx.child::<chapter>(text).await).await;
    for child in children {
        count += child?;
    }
    Ok(count)
}

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::builder().memory().start().await?;
    let chapters = vec!["It was a dark night".to_owned(), "Then came the sun".to_owned()];
    let run = engine.start::<book>(("A few words".to_owned(), chapters)).id("book").await?;
    println!("letters: {}\n", run.result().await?);
    for record in engine.runs(RunFilter::default()).await? {
        println!("run {:<22} {:<8} {} events", record.id.as_str(), record.workflow, record.next);
    }
    println!();
    for step in engine.view(run.id()).await?.steps {
        println!("{:<14} {:?}", step.command.as_str(), step.class);
    }
    Ok(())
}
