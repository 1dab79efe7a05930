//! Names and attributes against a table of the conventions.

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use tempfile::tempdir;

use crate::collector::{Collector, text};
use crate::kit::{LONG, engine, name, order_once, to_grpc};

/// Operation, kind, and required attributes of the spans of `gen_ai`; `{}` in a name stands for the attribute behind it.
const TABLE: [(&str, SpanKind, &str, &str, &[&str]); 4] = [
    (
        "chat",
        SpanKind::Client,
        "chat {}",
        "gen_ai.request.model",
        &[
            "gen_ai.provider.name",
            "gen_ai.response.model",
            "gen_ai.response.finish_reasons",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.conversation.id",
        ],
    ),
    ("execute_tool", SpanKind::Internal, "execute_tool {}", "gen_ai.tool.name", &["gen_ai.conversation.id"]),
    ("invoke_agent", SpanKind::Internal, "invoke_agent {}", "gen_ai.agent.name", &["gen_ai.conversation.id"]),
    ("invoke_workflow", SpanKind::Internal, "invoke_workflow {}", "gen_ai.workflow.name", &[]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_kinds_and_attributes_are_those_of_the_conventions() {
    let (folder, collector) = (tempdir().unwrap(), Collector::grpc().await);
    let engine = engine(&folder.path().join("a.db")).await;
    let telemetry = to_grpc(&collector).start(&engine);
    order_once(&engine, &name("conventions")).await;
    telemetry.flush(LONG).await.unwrap();
    let spans = collector.received.folded();
    let mut seen = std::collections::BTreeSet::new();
    for span in spans.values() {
        let operation = text(span, "gen_ai.operation.name");
        if operation.is_empty() {
            assert!(span.name.starts_with("aether."), "{}", span.name);
            continue;
        }
        let row = TABLE.iter().find(|row| row.0 == operation);
        let (_, kind, pattern, key, required) =
            row.unwrap_or_else(|| panic!("{operation} is not in the table"));
        assert_eq!(span.kind, *kind as i32, "{}", span.name);
        assert_eq!(span.name, pattern.replace("{}", &text(span, key)));
        for key in *required {
            assert!(!text(span, key).is_empty(), "{} has no {key}", span.name);
        }
        if operation == "chat" {
            assert_eq!(text(span, "gen_ai.provider.name"), "openai");
            assert_eq!(text(span, "gen_ai.usage.input_tokens"), "11");
        }
        seen.insert(operation);
    }
    assert_eq!(seen.len(), TABLE.len());
    for span in spans.values() {
        let named =
            |key: &str| ["gen_ai.", "aether.", "error.type"].iter().any(|prefix| key.starts_with(prefix));
        assert!(span.attributes.iter().all(|attribute| named(&attribute.key)), "{:?}", span.attributes);
        assert!(!text(span, "aether.run.id").is_empty() && !text(span, "aether.workflow").is_empty());
    }
    engine.shutdown().await.unwrap();
}
