//! Providers on the wire: what each says becomes the same answer, and what it says instead the same error, whole or streamed,
//! and an answer that is cut off anywhere is never taken for a complete one.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../kit/mod.rs"]
mod kit;

mod dialects;

use std::sync::Mutex;

use aether_core::outcome::{Classify as _, FailureClass};
use aether_effects::llm::{ChatMessage, ChatRequest, ChatResponse, ModelError, ToolCall, ToolSpec};
use dialects::{DIALECTS, Dialect, TEXT};
use kit::said::{Said, server};
use serde_json::{Value, json};

impl Dialect {
    fn whole_said(&self) -> Said {
        Said::json(200, &(self.whole)())
    }

    fn stream_said(&self) -> Said {
        Said { kind: self.kind, ..Said::events(&(self.stream)()) }
    }

    fn streamed_answer(&self) -> ChatResponse {
        let mut answer = (self.answer)();
        (self.streamed)(&mut answer);
        answer
    }
}

/// The two ways to ask.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Whole,
    Streamed,
}

const WAYS: [Way; 2] = [Way::Whole, Way::Streamed];

/// What becomes of a question that is answered like this, and the text as it was told.
async fn asked(dialect: &Dialect, way: Way, said: Said) -> (Result<ChatResponse, ModelError>, String) {
    let (url, _) = server(vec![said]).await;
    ask(dialect, way, &url).await
}

async fn ask(dialect: &Dialect, way: Way, url: &str) -> (Result<ChatResponse, ModelError>, String) {
    let told = Mutex::new(String::new());
    let client = (dialect.client)(url);
    let answer = match way {
        Way::Whole => client.chat(question()).await,
        Way::Streamed => client.chat_streamed(question(), &|text| told.lock().unwrap().push_str(text)).await,
    };
    if let Err(error) = &answer {
        assert!(!error.to_string().contains("very-secret"), "{}: {error}", dialect.name);
    }
    (answer, told.into_inner().unwrap())
}

fn question() -> ChatRequest {
    let call = ToolCall { id: "c1".into(), name: "search".into(), arguments: "{\"q\":1}".into() };
    ChatRequest {
        call: "c".into(),
        messages: vec![
            ChatMessage::system("s"),
            ChatMessage::user("u"),
            ChatMessage::Assistant { content: None, tool_calls: vec![call] },
            ChatMessage::Tool { call_id: "c1".into(), name: "search".into(), content: "found".into() },
        ],
        tools: vec![ToolSpec {
            name: "search".into(),
            description: "d".into(),
            schema: json!({ "type": "object", "properties": { "q": { "type": "integer" } } }),
        }],
        response_schema: Some(json!({ "type": "object", "properties": {} })),
        ..ChatRequest::default()
    }
}

#[tokio::test]
async fn each_provider_is_spoken_to_in_its_own_words() {
    for dialect in DIALECTS {
        let (url, heard) = server(vec![dialect.whole_said(), dialect.stream_said()]).await;
        for way in WAYS {
            ask(dialect, way, &url).await.0.unwrap();
        }
        for (heard, (path, way)) in heard.lock().unwrap().iter().zip(dialect.paths.iter().zip(WAYS)) {
            let at = format!("{} {way:?}: {} {}", dialect.name, heard.head, heard.body);
            assert!(heard.head.starts_with(&format!("POST {path} HTTP/1.1")), "{at}");
            assert!(dialect.key.is_none_or(|key| heard.head.contains(key)), "{at}");
            for (place, value) in (dialect.sent)() {
                assert_eq!(heard.body.pointer(place), Some(&value), "{place} of {at}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_a_model_did_not_write_to_its_end_is_sent_back_as_an_object() {
    let anthropic = DIALECTS.iter().find(|dialect| dialect.name == "Anthropic").unwrap();
    for (written, sent) in [
        ("{\"a\": \"b", json!({ "unreadable": "{\"a\": \"b" })),
        ("[1]", json!({ "unreadable": "[1]" })),
        ("", json!({})),
    ] {
        let (url, heard) = server(vec![anthropic.whole_said()]).await;
        let mut question = question();
        let call = ToolCall { id: "c1".into(), name: "search".into(), arguments: written.into() };
        question.messages[2] = ChatMessage::Assistant { content: None, tool_calls: vec![call] };
        (anthropic.client)(&url).chat(question).await.unwrap();
        let body = heard.lock().unwrap()[0].body.clone();
        assert_eq!(body.pointer("/messages/1/content/0/input"), Some(&sent), "{written}: {body}");
    }
}

#[tokio::test]
async fn text_calls_usage_reason_and_id_are_the_same_from_each_provider() {
    for dialect in DIALECTS {
        let (whole, _) = asked(dialect, Way::Whole, dialect.whole_said()).await;
        assert_eq!(whole.unwrap(), (dialect.answer)(), "{}", dialect.name);
        let (streamed, told) = asked(dialect, Way::Streamed, dialect.stream_said()).await;
        assert_eq!(streamed.unwrap(), dialect.streamed_answer(), "{}", dialect.name);
        assert_eq!(told, TEXT, "{}", dialect.name);
    }
}

#[tokio::test]
async fn a_stream_in_pieces_of_any_size_is_the_same() {
    for dialect in DIALECTS {
        let body = dialect.stream_said().pieces.concat();
        for at in (1..body.len()).step_by(13) {
            let pieces = vec![body[..at].to_vec(), body[at..].to_vec()];
            let said = Said { pieces, ..dialect.stream_said() };
            let (answer, told) = asked(dialect, Way::Streamed, said).await;
            assert_eq!(answer.unwrap(), dialect.streamed_answer(), "{} split at {at}", dialect.name);
            assert_eq!(told, TEXT, "{} split at {at}", dialect.name);
        }
    }
}

/// The seconds that an error asks to wait.
fn seconds(error: &ModelError) -> Option<u64> {
    error.retry_after().map(|wait| wait.as_secs())
}

#[tokio::test]
async fn a_status_means_the_same_from_each_provider_whole_and_streamed() {
    let date = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:50:37 GMT\r\n";
    let retried = FailureClass::Retryable;
    let table: &[(u16, &str, FailureClass, Option<u64>)] = &[
        (429, "retry-after: 9\r\n", retried, Some(9)),
        (429, date, retried, Some(60)),
        (429, "", retried, None),
        (500, "", retried, None),
        (503, "retry-after: 9\r\n", retried, Some(9)),
        (529, date, retried, Some(60)),
        (401, "", FailureClass::Permanent, None),
        (403, "", FailureClass::Permanent, None),
        (400, "", FailureClass::Permanent, None),
        (404, "", FailureClass::Permanent, None),
    ];
    for dialect in DIALECTS {
        for way in WAYS {
            for (status, headers, class, wait) in table {
                let body =
                    json!({ "error": { "message": "no to very-secret-key, and here is why", "type": "x" } });
                let said = Said { headers: (*headers).into(), ..Said::json(*status, &body) };
                let error = asked(dialect, way, said).await.0.unwrap_err();
                let at = format!("{} {way:?} {status} {headers}: {error:?}", dialect.name);
                assert_eq!((error.class(), seconds(&error)), (*class, *wait), "{at}");
                let is_kind = match status {
                    429 => matches!(error, ModelError::RateLimited { .. }),
                    401 | 403 => matches!(error, ModelError::Unauthorized { .. }),
                    400 | 404 => matches!(error, ModelError::BadRequest { .. }),
                    _ => matches!(&error, ModelError::Overloaded { status: said, .. } if said == status),
                };
                assert!(is_kind && error.to_string().contains("here is why"), "{at}");
            }
        }
    }
}

#[tokio::test]
async fn text_without_an_end_has_a_limit_through_genai() {
    let piece = json!({ "choices": [{ "index": 0, "delta": { "content": "x".repeat(1 << 16) } }] });
    let flood = vec![format!("data: {piece}\n\n"); 130];
    let (answer, told) = asked(&DIALECTS[1], Way::Streamed, Said::events(&flood)).await;
    let error = answer.unwrap_err();
    assert!(matches!(error, ModelError::TooLarge { .. }), "{error}");
    assert_eq!(told.len(), 8 << 20);
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_whole_and_streamed() {
    for dialect in DIALECTS {
        for body in ["", "<html>busy</html>", "{\"choices\":[", "{}", "[]", "7", "null"] {
            let pieces =
                vec![body.as_bytes().to_vec()].into_iter().filter(|piece| !piece.is_empty()).collect();
            let said = Said { pieces, ..Said::json(200, &Value::Null) };
            let error = asked(dialect, Way::Whole, said).await.0.unwrap_err();
            let is_kind = matches!(error, ModelError::NotJson { .. } | ModelError::WrongShape { .. });
            assert!(is_kind, "{} {body:?}: {error:?}", dialect.name);
        }
        for garbage in ["data: {\"choices\":\n\n", "data: <html>\n\n", "data: 7\n\n", "<html>\n"] {
            let begun = (dialect.stream)().swap_remove(0);
            let event = if dialect.kind == "text/event-stream" {
                garbage.to_owned()
            } else {
                garbage.replace("data: ", "").replace("\n\n", "\n")
            };
            let said = Said { kind: dialect.kind, ..Said::events(&[begun, event]) };
            let (answer, _) = asked(dialect, Way::Streamed, said).await;
            assert!(answer.is_err(), "{} {garbage:?}: {answer:?}", dialect.name);
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_off_anywhere_is_not_an_answer() {
    for dialect in DIALECTS {
        let whole = dialect.stream_said();
        for pieces in 0..=whole.pieces.len() {
            // The connection breaks, or the server says that this was all.
            for said in [whole.cut(pieces), whole.short(pieces)] {
                let (answer, told) = asked(dialect, Way::Streamed, said.clone()).await;
                let at = format!("{} {pieces} {}: {answer:?}", dialect.name, said.ends);
                assert!(TEXT.starts_with(&told), "{at}: {told}");
                match answer {
                    // One that has come so far is the whole one, but for what would have been counted.
                    Ok(answer) => {
                        let expected = dialect.streamed_answer();
                        assert!(pieces >= dialect.complete, "{at}");
                        assert_eq!(
                            (answer.content, answer.tool_calls),
                            (expected.content, expected.tool_calls)
                        );
                    }
                    Err(error) => {
                        assert!(pieces < dialect.complete || !said.ends, "{at}");
                        assert_eq!(error.class(), FailureClass::Retryable, "{at}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_off_in_the_middle_of_an_event_is_not_an_answer() {
    for dialect in DIALECTS {
        let pieces = dialect.stream_said().pieces;
        let complete: usize = pieces[..dialect.complete].iter().map(Vec::len).sum();
        let body = pieces.concat();
        let before_the_last = complete - pieces[dialect.complete - 1].len();
        // What follows an event is not needed.
        for at in (0..complete - 3).step_by(11) {
            for ends in [false, true] {
                let pieces = [body[..at].to_vec()].into_iter().filter(|piece| !piece.is_empty()).collect();
                let said = Said { pieces, ends, ..dialect.stream_said() };
                let (answer, told) = asked(dialect, Way::Streamed, said).await;
                let name = format!("{} cut at {at}, {ends}: {answer:?}", dialect.name);
                assert!(TEXT.starts_with(&told), "{name}");
                match answer {
                    // The name of an event may say that it is the last.
                    Ok(answer) => {
                        assert!(ends && at > before_the_last, "{name}");
                        assert_eq!(answer, dialect.streamed_answer(), "{name}");
                    }
                    Err(error) => assert_ne!(error.class(), FailureClass::Permanent, "{name}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_whole_answer_that_is_cut_off_is_not_an_answer() {
    for dialect in DIALECTS {
        let body = (dialect.whole)().to_string().into_bytes();
        for at in (0..body.len()).step_by(17) {
            for ends in [false, true] {
                let pieces = [body[..at].to_vec()].into_iter().filter(|piece| !piece.is_empty()).collect();
                let said = Said { pieces, ends, ..dialect.whole_said() };
                let error = asked(dialect, Way::Whole, said).await.0.unwrap_err();
                let at = format!("{} cut at {at}, {ends}: {error:?}", dialect.name);
                assert_ne!(error.class(), FailureClass::Permanent, "{at}");
            }
        }
    }
}

#[tokio::test]
async fn nobody_there_and_a_connection_that_is_closed_are_errors_of_the_network() {
    for dialect in DIALECTS {
        for way in WAYS {
            for url in [kit::nobody().await, kit::peer(kit::Manner::Closes).await.0] {
                let error = ask(dialect, way, &format!("{url}/v1")).await.0.unwrap_err();
                assert!(matches!(error, ModelError::Network { .. }), "{} {way:?}: {error:?}", dialect.name);
            }
        }
    }
}

#[tokio::test]
async fn an_error_in_the_middle_of_a_stream_has_the_class_that_it_would_have_had_before() {
    for dialect in DIALECTS {
        let mut events = (dialect.stream)();
        events.truncate(dialect.complete - 1);
        events.push((dialect.limited)());
        let said = Said { kind: dialect.kind, ..Said::events(&events) };
        let error = asked(dialect, Way::Streamed, said).await.0.unwrap_err();
        let at = format!("{}: {error:?}", dialect.name);
        assert_eq!(error.class(), FailureClass::Retryable, "{at}");
        // Ollama says no more than its words.
        let is_limit = matches!(error, ModelError::RateLimited { .. }) || dialect.key.is_none();
        assert!(is_limit, "{at}");
    }
}
