//! What must hold of streams, whatever dies and whatever the store does.
//!
//! Promise: only what was written is looked at. That a stream was given up, which a store can bring about that takes nothing,
//! is no violation; that a text stays which is not that of the answer is one.

use std::collections::BTreeMap;

use aether_core::contract::Status;
use aether_core::id::{CommandId, RunId};
use aether_core::journal::event::{CommandCommitted, Event};
use aether_core::payload::Digest;
use aether_core::store::{Store, StreamItem, StreamKind};
use aether_effects::llm::ChatResponse;
use serde_json::Value;

use super::doubts::journal_of;
use crate::sim::report::error::SimError;
use crate::sim::report::streams::SimStream;
use crate::stores::stream_watch::{ReadStreams, StreamId, items_of};

/// What models told streams of answers that were recorded: the texts, by stream and command.
pub(crate) type ModelTexts = BTreeMap<(StreamId, CommandId), Vec<String>>;

/// The first thing that is wrong with any stream, and what models told them. `read` is what a reader got of each who was there
/// all along.
pub(super) async fn audit_streams(
    store: &dyn Store,
    read: &ReadStreams,
) -> Result<(ModelTexts, Option<String>), SimError> {
    let (mut texts, mut broken) = (ModelTexts::default(), None);
    for (stream, live) in read {
        let Some(record) = store.run(&stream.0).await? else {
            // Purged, and its streams with it.
            continue;
        };
        let late = items_of(store, stream, 0).await?;
        let answers = answers(store, &stream.0).await?;
        let told = committed(&late);
        let wrong = told.iter().find_map(|told| told.refuted_by(&answers));
        let named = |what: String| format!("stream `{}` of run `{}`: {what}", stream.1, stream.0);
        broken = broken.or(wrong.or_else(|| differing(live, &late)).map(named));
        for Told { command, text, .. } in told.into_iter().filter(Told::is_of_model) {
            texts.entry((stream.clone(), command)).or_default().push(text);
        }
        if record.status == Status::Completed
            && let Some(open) = store.open_streams(&record.id).await?.first()
        {
            broken.get_or_insert_with(|| {
                format!(
                    "run `{}` has completed, and of what `{open}` sent nothing says whether it counts",
                    record.id
                )
            });
        }
    }
    Ok((texts, broken))
}

/// The answers of models that the journal of a run has: the text, by command and digest.
async fn answers(store: &dyn Store, run: &RunId) -> Result<BTreeMap<(CommandId, String), String>, SimError> {
    let answer = |event| match event {
        Event::CommandCommitted(CommandCommitted { command, result: Some(result), .. }) => {
            let digest = Digest::of(&result).ok()?.as_str().to_owned();
            let text = result.decode::<ChatResponse>().ok()?.content.unwrap_or_default();
            Some(((command, digest), text))
        }
        _ => None,
    };
    Ok(journal_of(store, run).await?.into_iter().filter_map(answer).collect())
}

/// What a command has told a stream, and the digest of the outcome that it is part of.
struct Told {
    command: CommandId,
    digest: String,
    text: String,
}

impl Told {
    fn is_of_model(&self) -> bool {
        self.command.name().starts_with("llm.")
    }

    /// How it differs from the answer. Of an earlier generation of the run the journal does not know the answer.
    fn refuted_by(&self, answers: &BTreeMap<(CommandId, String), String>) -> Option<String> {
        let Self { command, digest, text } = self;
        let answer = answers.get(&(command.clone(), digest.clone())).filter(|_| self.is_of_model())?;
        (answer != text).then(|| format!("`{command}` told {text:?}, and its answer is {answer:?}"))
    }
}

/// What is committed in a stream.
fn committed(items: &[StreamItem]) -> Vec<Told> {
    let mut folded: BTreeMap<&CommandId, String> = BTreeMap::new();
    let mut told = Vec::new();
    for item in items {
        match item.kind {
            StreamKind::Folded => {
                let pieces = item.data.decode::<Vec<Value>>().unwrap_or_default();
                folded.insert(&item.command, pieces.iter().filter_map(Value::as_str).collect());
            }
            StreamKind::Committed => {
                let (command, digest) = (item.command.clone(), item.data.decode().unwrap_or_default());
                let text = folded.remove(&item.command).unwrap_or_default();
                told.push(Told { command, digest, text });
            }
            _ => {}
        }
    }
    told
}

/// How what counts differs between who was there all along and who comes when all is over.
fn differing(live: &[StreamItem], late: &[StreamItem]) -> Option<String> {
    let read = |items| SimStream::<Value>::of(items, None);
    let (live, late) = match (read(live), read(late)) {
        (Ok(live), Ok(late)) => (live, late),
        (Err(error), _) | (_, Err(error)) => return Some(error.to_string()),
    };
    let (live, late) = (live.items(), late.items());
    (live != late).then(|| {
        format!(
            "a reader who was there all along has {live:?}, and one who comes when all is over has {late:?}"
        )
    })
}
