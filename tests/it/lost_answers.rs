//! Errors that say that an answer was lost: what a body gets from a connection or a client of its own.

use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aether::error::FailureClass;
use aether::prelude::*;
use aether::store::ledger::LedgerStatus;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::seeds::kit::{Calls, in_time};

/// How the connection ends, as often as is left.
struct Line {
    kind: ErrorKind,
    left: AtomicU32,
}

impl Line {
    fn charge(cx: &StepCx) -> Result<u32> {
        Calls::note(cx)?;
        let line = cx.dep::<Self>()?;
        let is_lost =
            line.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if is_lost {
            Err(anyhow::Error::new(Error::from(line.kind)).context("charge the card"))?
        } else {
            Ok(7)
        }
    }
}

#[step(effect = "http", idempotent, on_unknown = "retry", retry(max_retries = 3, delay = "1ms"))]
async fn charge_once(cx: &mut StepCx) -> Result<u32> {
    Line::charge(cx)
}

#[step(effect = "tool", irreversible)]
async fn charge_for_good(cx: &mut StepCx) -> Result<u32> {
    Line::charge(cx)
}

#[step(effect = "read", retry(max_retries = 3, delay = "1ms"))]
async fn read_balance(cx: &mut StepCx) -> Result<u32> {
    Line::charge(cx)
}

/// Make one of the calls, and say how it ended.
#[workflow]
async fn charging(cx: &mut Cx, which: u32) -> Result<String> {
    let ended = match which {
        0 => charge_once(cx).await,
        1 => charge_for_good(cx).await,
        _ => read_balance(cx).await,
    };
    Ok(match ended {
        Ok(value) => format!("{value}"),
        Err(StepError::InDoubt(_)) => "in doubt".into(),
        Err(StepError::App(failure)) => format!("failed: {:?}", failure.class()),
        Err(StepError::Exhausted(failure)) => format!("exhausted: {:?}", failure.class()),
        Err(other) => format!("{other:?}"),
    })
}

async fn ended(kind: ErrorKind, left: u32, which: u32) -> (String, Calls, Engine) {
    let calls = Calls::default();
    let engine = Engine::builder().memory().provide(calls.clone()).provide(Line { kind, left: left.into() });
    let engine = engine.start().await.unwrap();
    let run = engine.start::<charging>(which).id("charging").await.unwrap();
    (in_time(run.result()).await.unwrap(), calls, engine)
}

/// Every kind with which a connection can end after it carried something.
const LOST: [ErrorKind; 8] = [
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionAborted,
    ErrorKind::NotConnected,
    ErrorKind::BrokenPipe,
    ErrorKind::TimedOut,
    ErrorKind::HostUnreachable,
    ErrorKind::UnexpectedEof,
    ErrorKind::WriteZero,
];

#[tokio::test]
async fn a_call_whose_connection_was_lost_is_made_again_under_its_key() {
    for kind in LOST {
        let (ended, calls, _) = ended(kind, 2, 0).await;
        let mut keys = calls.keys("charge_once");
        assert_eq!((&*ended, keys.len()), ("7", 3), "{kind}");
        keys.dedup();
        assert_eq!(keys.len(), 1, "{kind}: {keys:?}");
    }
}

#[tokio::test]
async fn a_call_whose_connection_was_lost_is_in_doubt_and_keeps_its_business_key() {
    for kind in LOST {
        let (ended, calls, engine) = ended(kind, 1, 1).await;
        assert_eq!((&*ended, calls.of("charge_for_good")), ("in doubt", 1), "{kind}");
        let row = engine.ledger(&crate::seeds::kit::run_id("charging")).await.unwrap().remove(0);
        assert_eq!((row.status, row.committed), (LedgerStatus::InDoubt, false), "{kind}");
    }
}

#[tokio::test]
async fn a_connection_that_was_refused_carried_nothing() {
    let (once, calls, _) = ended(ErrorKind::ConnectionRefused, 1, 0).await;
    let mut keys = calls.keys("charge_once");
    keys.dedup();
    assert_eq!((&*once, keys.len()), ("7", 2), "another attempt");
    let (for_good, _, engine) = ended(ErrorKind::ConnectionRefused, 1, 1).await;
    assert_eq!(for_good, "failed: Retryable");
    let row = engine.ledger(&crate::seeds::kit::run_id("charging")).await.unwrap().remove(0);
    assert_eq!(row.status, LedgerStatus::Failed);
}

#[tokio::test]
async fn a_read_goes_by_the_class_as_before() {
    for kind in LOST {
        let (read, calls, _) = ended(kind, 2, 2).await;
        assert_eq!((&*read, calls.of("read_balance")), ("7", 3), "{kind}");
    }
    let (read, ..) = ended(ErrorKind::ConnectionReset, 9, 2).await;
    assert_eq!(read, format!("exhausted: {:?}", FailureClass::Retryable));
    let (read, ..) = ended(ErrorKind::UnexpectedEof, 9, 2).await;
    assert_eq!(read, format!("exhausted: {:?}", FailureClass::Unclassified));
}

/// What a server does with a request that it has read.
#[derive(Clone, Copy, Debug)]
enum Answer {
    HangUp,
    Silence,
    Text(&'static str),
}

struct Bank(String);

fn connections() -> reqwest::ClientBuilder {
    aether::http::HttpClient::connections_builder().unwrap().no_proxy()
}

/// Post with a client of the program's own.
#[step(effect = "http")]
async fn post_raw(cx: &mut StepCx) -> Result<String> {
    let bank = cx.dep::<Bank>()?;
    let client = connections().timeout(Duration::from_millis(300)).build()?;
    let answer = client.post(&bank.0).body("500 cents").send().await?;
    Ok(answer.error_for_status()?.text().await?)
}

/// As `post_raw`, with a time limit around it.
#[step(effect = "http")]
async fn post_in_time(cx: &mut StepCx) -> Result<String> {
    let bank = cx.dep::<Bank>()?;
    let client = connections().build()?;
    let sent = client.post(&bank.0).body("500 cents").send();
    Ok(tokio::time::timeout(Duration::from_millis(300), sent).await??.text().await?)
}

#[workflow]
async fn posting_raw(cx: &mut Cx, in_time: bool) -> Result<String> {
    let posted = if in_time { post_in_time(cx).await } else { post_raw(cx).await };
    Ok(match posted {
        Ok(_) => "done".into(),
        Err(StepError::InDoubt(_)) => "in doubt".into(),
        Err(StepError::App(failure)) => format!("failed: {:?}", failure.class()),
        Err(other) => format!("{other:?}"),
    })
}

async fn posted(url: String, within: bool) -> String {
    let engine = Engine::builder().memory().provide(Bank(url)).start().await.unwrap();
    let run = engine.start::<posting_raw>(within).await.unwrap();
    in_time(run.result()).await.unwrap()
}

/// A server that reads each request and answers like this.
async fn serve(answer: Answer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let held = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut read = [0; 4096];
            let _ = stream.read(&mut read).await;
            match answer {
                Answer::HangUp => {}
                Answer::Silence => held.lock().await.push(stream),
                Answer::Text(text) => {
                    let _ = stream.write_all(text.as_bytes()).await;
                }
            }
        }
    });
    url
}

#[tokio::test]
async fn a_client_of_the_programs_own_is_in_doubt_where_its_request_went_out() {
    const CUT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf of it";
    const BUSY: &str = "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const LATE: &str = "HTTP/1.1 408 Late\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for answer in [Answer::HangUp, Answer::Silence, Answer::Text(CUT), Answer::Text(BUSY), Answer::Text(LATE)]
    {
        assert_eq!(posted(serve(answer).await, false).await, "in doubt", "{answer:?}");
    }
    assert_eq!(posted(serve(Answer::Silence).await, true).await, "in doubt");
}

#[tokio::test]
async fn a_client_of_the_programs_own_failed_where_nothing_was_done() {
    const NO: &str = "HTTP/1.1 422 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const LESS: &str = "HTTP/1.1 429 Less\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const YES: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    assert_eq!(posted(serve(Answer::Text(NO)).await, false).await, "failed: Permanent");
    assert_eq!(posted(serve(Answer::Text(LESS)).await, false).await, "failed: Retryable");
    assert_eq!(posted(serve(Answer::Text(YES)).await, false).await, "done");
    let refused = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", refused.local_addr().unwrap());
    drop(refused);
    assert_eq!(posted(url, false).await, "failed: Retryable");
    assert_eq!(posted("no url".into(), false).await, "failed: Permanent");
}
