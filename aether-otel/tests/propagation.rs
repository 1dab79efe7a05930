//! Trace contexts on their way to others: in requests and to child runs.

use std::sync::Arc;

use aether::otel::Nested;
use aether::prelude::*;
use aether_core::id::RunId;
use aether_core::journal::event::Event;
use tempfile::tempdir;
use wiremock::matchers::any;
use wiremock::{Mock, MockServer, ResponseTemplate};

use crate::collector::{Collector, hex, text};
use crate::journal;
use crate::kit::{LONG, charge, to_grpc};

/// Post something.
#[step(effect = "tool")]
async fn post(cx: &mut StepCx, url: &str) -> Result<u16> {
    Ok(cx.http().post(url).json(&["lamp"]).send().await?.status)
}

/// A child that calls.
#[workflow]
async fn packing(cx: &mut Cx, what: String) -> Result<String> {
    Ok(charge(cx, &what).await?)
}

/// Calls, from the workflow and from a step, and has a child.
#[workflow]
async fn calls(cx: &mut Cx, url: String) -> Result<u16> {
    cx.http().get(&url).send().await?;
    cx.child::<packing>("box".to_owned()).await?;
    Ok(post(cx, &url).await?)
}

/// The headers that a server got, and what was recorded of the run.
async fn called(nested: bool) -> (Vec<Option<String>>, Vec<Event>, Collector) {
    let (folder, server) = (tempdir().unwrap(), MockServer::start().await);
    Mock::given(any()).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let collector = Collector::grpc().await;
    let builder = Engine::builder().sqlite(folder.path().join("a.db"));
    let builder = if nested { builder.trace_bodies(Arc::new(Nested)) } else { builder };
    let engine = builder.start().await.unwrap();
    let telemetry = to_grpc(&collector).start(&engine);
    let run = engine.start::<calls>(server.uri()).id("calls").await.unwrap();
    run.result().await.unwrap();
    telemetry.flush(LONG).await.unwrap();
    let requests = server.received_requests().await.unwrap();
    let header = |request: &wiremock::Request| {
        request.headers.get("traceparent").map(|value| value.to_str().unwrap().to_owned())
    };
    let headers = requests.iter().map(header).collect();
    let events = journal::events(&engine, &RunId::new("calls").unwrap()).await;
    engine.shutdown().await.unwrap();
    let events = events.into_iter().map(|(_, event)| event);
    (headers, events.collect(), collector)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_carry_the_span_of_their_attempt_and_children_belong_to_the_trace() {
    let (headers, _, collector) = called(true).await;
    let spans = collector.received.folded();
    assert_eq!(headers.len(), 2);
    for (header, command) in headers.iter().zip(["http.get", "post"]) {
        let header = header.as_ref().unwrap();
        let parts: Vec<_> = header.split('-').collect();
        let span = &spans[parts[2]];
        assert_eq!(parts[1], hex(&span.trace_id));
        assert_eq!(span.name, "aether.attempt 0");
        assert!(text(span, "aether.command").ends_with(command), "{header}");
    }
    let child = spans.values().find(|span| span.name == "invoke_workflow packing" && !span.links.is_empty());
    assert!(child.is_none(), "a child in the trace of its parent needs no link");
    let child = spans.values().find(|span| text(span, "aether.parent.run.id") == "calls").unwrap();
    let command = &spans[&hex(&child.parent_span_id)];
    assert_eq!((text(command, "aether.effect"), &command.trace_id), ("workflow".to_owned(), &child.trace_id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_recorded_depends_on_it_and_without_it_none_is_sent() {
    let (headers, without, _) = called(false).await;
    assert_eq!(headers, [None, None]);
    let (_, with, _) = called(true).await;
    let commands = |events: &[Event]| {
        let of = |event: &Event| match event {
            Event::HttpRecorded(e) => {
                let request = e.request.as_str().replace(|c: char| c.is_ascii_digit(), "");
                Some(format!("{} {request}", e.command))
            }
            Event::NodeStarted(e) => Some(format!("{} {:?}", e.command, e.class)),
            _ => None,
        };
        events.iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(commands(&with), commands(&without));
    assert!(!format!("{with:?}").contains("traceparent"));
}
