//! A model that counts what it is really asked, whatever of it gets into a journal.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use aether::StepError;
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall, Usage};
use aether::prelude::*;
use futures_util::future::BoxFuture;

/// Tokens that an answer really takes.
pub(super) const TAKEN: u64 = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    counts: Arc<Counts>,
    wait: Duration,
    silent: bool,
    call: Option<(&'static str, &'static str)>,
}

#[derive(Debug, Default)]
struct Counts {
    calls: AtomicUsize,
    tokens: AtomicU64,
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Meter {
    /// One that takes its time.
    pub(super) fn slow(wait: Duration) -> Self {
        Self { wait, ..Self::default() }
    }

    /// One that tells no usage.
    pub(super) fn silent(self) -> Self {
        Self { silent: true, ..self }
    }

    /// One that always asks for this tool.
    pub(super) fn calling(self, tool: &'static str, arguments: &'static str) -> Self {
        Self { call: Some((tool, arguments)), ..self }
    }

    pub(super) fn calls(&self) -> usize {
        self.counts.calls.load(Ordering::SeqCst)
    }

    /// Tokens of all questions that were really asked.
    pub(super) fn tokens(&self) -> u64 {
        self.counts.tokens.load(Ordering::SeqCst)
    }

    pub(super) fn most_at_once(&self) -> usize {
        self.counts.most.load(Ordering::SeqCst)
    }

    async fn answer(self) -> ChatResponse {
        let Self { counts, wait, silent, call } = self;
        counts.calls.fetch_add(1, Ordering::SeqCst);
        counts.tokens.fetch_add(TAKEN, Ordering::SeqCst);
        let now = counts.now.fetch_add(1, Ordering::SeqCst) + 1;
        counts.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(wait).await;
        counts.now.fetch_sub(1, Ordering::SeqCst);
        let tool_calls = call.map(|(name, arguments)| ToolCall {
            id: "call".into(),
            name: name.into(),
            arguments: arguments.into(),
        });
        ChatResponse {
            model: "meter".into(),
            content: Some("yes".into()),
            tool_calls: tool_calls.into_iter().collect(),
            usage: if silent { Usage::default() } else { Usage::of(TAKEN / 2, TAKEN / 2) },
            ..ChatResponse::default()
        }
    }
}

impl ModelClient for Meter {
    fn chat(&self, _: ChatRequest) -> BoxFuture<'_, Result<ChatResponse, ModelError>> {
        let meter = self.clone();
        Box::pin(async move { Ok(meter.answer().await) })
    }
}

/// One question, which reserves more than its answer takes.
#[workflow]
pub(super) async fn ask(cx: &mut Cx) -> std::result::Result<String, StepError> {
    cx.llm("ask").max_tokens(40).user("Yes?").text().await
}
