//! Calls of tools whose arguments the model may not have written.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aether_core::definition::def::StepOptions;
use aether_core::engine::EngineBuilder;
use aether_core::outcome::EffectClass;
use aether_core::step::{Tool, ToolSchema};
use aether_core::store::memory::MemoryStore;
use aether_effects::agent::{AgentReport, CxAgent};
use aether_effects::llm::{ChatMessage, ChatResponse, Models};
use kit::{Script, builder, calls, says, verify};

step!(
    #[doc = " Delete the drafts of a folder, or all of them."]
    delete(cx, folder: Option<String>) -> String, StepOptions::of(EffectClass::Tool), {
        cx.dep::<Arc<AtomicUsize>>()?.fetch_add(1, Ordering::SeqCst);
        Ok(folder.unwrap_or_else(|| "all".into()))
    }
);

workflow!(Tidy(cx, prompt: String) -> AgentReport {
    let drafts = Tool::of::<delete>(ToolSchema::new().field::<Option<String>>("folder", "a folder"));
    Ok(cx.agent("tidy").tools((drafts,)).run(prompt).await?)
});

/// An answer that calls the tool with these arguments, and ends for this reason.
fn deletes(arguments: &str, reason: &str) -> ChatResponse {
    ChatResponse { finish_reason: Some(reason.into()), ..calls(&[("delete", arguments)]) }
}

fn providing(engine: EngineBuilder, script: &Script, deleted: &Arc<AtomicUsize>) -> EngineBuilder {
    engine.register::<Tidy>().provide(Models::new(script.clone())).provide(Arc::clone(deleted))
}

#[tokio::test]
async fn a_tool_is_not_called_with_arguments_that_the_model_never_wrote() {
    for (arguments, reason) in [("{}", "max_tokens"), ("", "content_filter"), ("", "length"), ("", "refusal")]
    {
        let (store, deleted) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
        let script = Script::new([deletes(arguments, reason), says("done")]);
        let engine = providing(builder(&store), &script, &deleted).start().await.unwrap();
        let run = engine.start::<Tidy>("tidy up".into()).await.unwrap();
        assert_eq!(run.result().await.unwrap().answer, "done");
        assert_eq!(deleted.load(Ordering::SeqCst), 0, "{reason}");
        let asked = script.asked();
        let told = asked[1].messages.last();
        let Some(ChatMessage::Tool { content, .. }) = told else { panic!("{reason}: {told:?}") };
        assert!(content.starts_with("error: bad arguments for `delete`"), "{reason}: {content}");
        verify(&engine, run.id()).await;
    }
}

#[tokio::test]
async fn a_tool_that_needs_no_arguments_is_called_with_none() {
    for (arguments, reason) in [("", "tool_calls"), ("{}", "tool_use"), ("{}", "content_filter")] {
        let (store, deleted) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
        let script = Script::new([deletes(arguments, reason), says("done")]);
        let engine = providing(builder(&store), &script, &deleted).start().await.unwrap();
        let run = engine.start::<Tidy>("tidy up".into()).await.unwrap();
        assert_eq!(run.result().await.unwrap().answer, "done");
        assert_eq!(deleted.load(Ordering::SeqCst), 1, "{reason}");
    }
}

#[tokio::test]
async fn a_run_in_which_a_build_before_made_such_a_call_goes_on_with_it() {
    let (store, deleted) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
    let script = Script::new([deletes("", "function_call"), says("done")]);
    let engine = providing(builder(&store), &script, &deleted).start().await.unwrap();
    let run = engine.start::<Tidy>("tidy up".into()).id("run").await.unwrap();
    run.result().await.unwrap();

    let (half, again) = (MemoryStore::new(), Arc::new(AtomicUsize::new(0)));
    let reasons = [("function_call", "content_filter")];
    kit::copy_rewritten(&half, &store, run.id(), "0.1:delete", &reasons).await;
    let script = Script::new([says("after the crash")]);
    let engine = providing(kit::successor(&half), &script, &again).start().await.unwrap();
    let run = engine.handle::<Tidy>("run").await.unwrap();
    assert_eq!(run.result().await.unwrap().answer, "after the crash");
    assert_eq!((again.load(Ordering::SeqCst), script.asked().len()), (0, 1));
    let asked = script.asked();
    let told = asked[0].messages.last();
    assert!(matches!(told, Some(ChatMessage::Tool { content, .. }) if content == "all"), "{told:?}");
    verify(&engine, run.id()).await;
}
