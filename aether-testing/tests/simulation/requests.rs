//! Requests of a workflow: hash maps as bodies, which have another order in each process, and answers as they are recorded.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use aether::http::{Body, HttpResponse};
use aether::prelude::*;
use aether_testing::sim::HttpCall;
use aether_testing::{Sim, SimError};

use crate::DAY;

/// Where fields are sent to, and the fields.
type Asked = (String, HashMap<String, String>);

/// Tell two servers the same fields, side by side.
#[workflow]
async fn fields_told(cx: &mut Cx, asked: Asked) -> Result<u16> {
    let (base, fields) = asked;
    let (one, other) = cx
        .join((
            async |cx: &mut Cx| cx.http().post(format!("{base}/one")).json(&fields).idempotent().send().await,
            async |cx: &mut Cx| cx.http().post(format!("{base}/two")).json(&fields).idempotent().send().await,
        ))
        .await;
    cx.sleep(DAY).await;
    Ok(one?.status + other?.status)
}

/// Maps that are made anew have their members in another order.
fn asked(base: &str) -> Asked {
    (base.to_owned(), (0..6).map(|n| (format!("f{n}"), n.to_string())).collect())
}

#[tokio::test]
async fn a_hash_map_as_a_body_is_the_same_in_every_sweep() {
    const BASE: &str = "https://crm.example";
    let sim = Sim::new::<fields_told>().http("POST", "*", |_| 201);
    sim.crash_at_every_append(asked(BASE)).await;
    assert!(sim.every_interleaving(10, asked(BASE)).await.exhaustive);
    sim.every_schedule(asked(BASE), 20).await;
    sim.check_deterministic(asked(BASE)).await;
    let journals = [sim.run(asked(BASE)).await.journal(), sim.run(asked(BASE)).await.journal()];
    assert_eq!(journals[0], journals[1]);
    assert!(journals[0].contains(r#"{\"f0\":\"0\",\"f1\":\"1\","#), "{}", journals[0]);
}

/// A server that answers two requests with 201; its address.
fn two_answers() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().take(2).map(|stream| stream.unwrap()) {
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                let mut part = [0; 4096];
                let length = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..length]);
            }
            let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
    });
    address
}

/// As [`fields_told`], one behind the other.
#[workflow]
async fn fields_kept(cx: &mut Cx, asked: Asked) -> Result<u16> {
    let (base, fields) = asked;
    let one = cx.http().post(format!("{base}/one")).json(&fields).idempotent().send().await?;
    let other = cx.http().post(format!("{base}/two")).json(&fields).idempotent().send().await?;
    Ok(one.status + other.status)
}

#[tokio::test]
async fn a_recording_answers_a_request_whose_body_has_another_order() {
    let base = two_answers();
    let engine = Engine::builder().memory().allow_missing_deps().start().await.unwrap();
    let run = engine.start::<fields_kept>(asked(&base)).id("told").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 402);
    let recording = engine.export(run.id()).await.unwrap();
    let sim = Sim::new::<fields_kept>().recorded(&recording).unwrap();
    for _ in 0..3 {
        assert_eq!(*sim.run(asked(&base)).await.assert_completed(), 402);
    }
    let mut others = asked(&base);
    others.1.insert("f0".into(), "7".into());
    let error = sim.try_run(others).await.unwrap_err();
    assert!(
        matches!(&error, SimError::NotRecorded { what, .. } if what.contains("other arguments")),
        "{error}"
    );
}

/// Ask where something is.
#[workflow]
async fn placed(cx: &mut Cx, url: String) -> Result<(Option<String>, Option<String>)> {
    let answer = cx.http().get(url).send().await?;
    Ok((answer.header("location").map(str::to_owned), answer.redirected_to))
}

#[tokio::test]
async fn the_urls_of_a_scripted_answer_are_those_that_a_real_one_would_have() {
    for (location, redirected_to, recorded) in [
        ("/x?token=t", None, "https://shop.example/x?token=***"),
        ("next?a=1#there", None, "https://shop.example/items/next?a=1"),
        ("https://me:pw@files.example/7", None, "https://***@files.example/7"),
        ("/x", Some("https://other.example/y?sig=s"), "https://other.example/x"),
        ("https://shop.example/x?token=***", None, "https://shop.example/x?token=***"),
    ] {
        let redirected = redirected_to.map(str::to_owned);
        let answer = move |_: &HttpCall| HttpResponse {
            method: String::new(),
            url: String::new(),
            redirected_to: redirected.clone(),
            status: 200,
            headers: BTreeMap::from([("Location".to_owned(), location.to_owned())]),
            body: Body::Text(String::new()),
        };
        let report =
            Sim::new::<placed>().http("GET", "*", answer).run("https://shop.example/items/7".into()).await;
        let (found, elsewhere) = report.assert_completed();
        assert_eq!(found.as_deref(), Some(recorded));
        assert_eq!(elsewhere.as_deref(), redirected_to.map(|_| "https://other.example/y?sig=***"));
    }
}
