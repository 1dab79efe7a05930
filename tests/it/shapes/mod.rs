//! Data whose shape changed while runs are open. The builds of one program have the same workflows and steps and differ in
//! their types; journals of the old build are cut at every event and resumed by another one.

#![allow(clippy::duplicate_mod, reason = "one program is built twice, with other types")]

mod compatible;
mod models;
mod moved;
mod new;
mod old;
mod unreadable;

use std::time::Duration;

use aether::definition::Workflow;
use aether::error::RunError;
use aether::prelude::*;
use aether::store::event::Event;

use crate::seeds::kit::{Calls, Journal, Place, builder, in_time};

/// The journals of one run and of its children.
struct Recorded {
    run: Journal,
    children: Vec<Journal>,
    result: Vec<u32>,
}

/// A whole run of the old build.
async fn recorded() -> Recorded {
    let place = Place::sqlite();
    let engine = builder(&place.store, &Calls::default()).provide(old::receipt(3)).start().await.unwrap();
    let run = engine.start::<old::program::shape_order>(old::ticket(2)).id("order").await.unwrap();
    let result = attend(&engine, &run).await.unwrap();
    let run = Journal::read(&place.store, "order").await;
    let mut children = Vec::new();
    for event in &run.events {
        if let Event::ChildStarted(started) = event {
            children.push(Journal::read(&place.store, started.child.as_str()).await);
        }
    }
    Recorded { run, children, result }
}

/// The journal as the build in module `to` would find it: written by code of the same names.
fn deployed(journal: &Journal, to: &str) -> Journal {
    let to = format!("::shapes::{to}::");
    let moved = |event: &Event| {
        let text = serde_json::to_string(event).unwrap();
        serde_json::from_str(&text.replace("::shapes::old::", &to)).unwrap()
    };
    Journal { run: journal.run.clone(), events: journal.events.iter().map(moved).collect() }
}

/// Sends and decides what the run waits for, until it has ended.
async fn attend<W: Workflow>(engine: &Engine, run: &RunHandle<W>) -> Result<W::Output, RunError<W::Error>> {
    let id = run.id().clone();
    engine.signal(&id, "paid", "letter", &old::receipt(5)).await.unwrap();
    let decide = async {
        loop {
            for wait in engine.pending(&id).await.unwrap() {
                // Only one of them fits the wait.
                let _decided = engine.approve(&id, &wait.command, "ann").await;
                let _answered = engine.answer(&id, &wait.command, &old::receipt(4), "ann").await;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::select! {
        result = in_time(run.result()) => result,
        () = decide => unreachable!("it decides for ever"),
    }
}
