//! What is sent with a request, and where to: the keys of a body that is called again, headers that stay at their host; and
//! what an error tells of the answer.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use aether_core::definition::def::{OnUnknown, StepOptions};
use aether_core::failure::StepError;
use aether_core::journal::event::Event;
use aether_core::outcome::EffectClass;
use aether_core::payload::{Digest, Payload};
use aether_core::recording::Masking;
use aether_core::store::Store;
use aether_core::store::ledger::LedgerEntry;
use aether_core::store::memory::MemoryStore;
use aether_effects::http::{CxHttp, HttpClient, StepHttp};
use futures_util::FutureExt as _;
use kit::{builder, events, recorded_text};
use serde_json::json;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

step!(charge_customer(cx, base: String) -> u16, StepOptions {
    idempotent: true, on_unknown: OnUnknown::Retry, ..StepOptions::of(EffectClass::Tool)
}, {
    if cx.http().get(format!("{base}/customer")).send().await?.status == 404 {
        cx.http().post(format!("{base}/customer")).send().await?.error_for_status()?;
    }
    let charged = cx.http().post(format!("{base}/charge")).query(&[("at", rand())]).send().await?;
    Ok(charged.error_for_status()?.status)
});

/// Another number each time.
fn rand() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

workflow!(Charge(cx, base: String) -> u16 {
    let args = <charge_customer as aether_core::step::Step>::encode(&base);
    Ok(aether_core::workflow::call_step::<charge_customer>(cx, args).await?)
});

#[tokio::test]
async fn a_request_of_a_body_that_is_called_again_has_its_key_also_where_another_one_is_left_out() {
    let server = MockServer::start().await;
    // The customer is missing once, and the first charge leaves nobody knowing.
    for (verb, place, first, then) in
        [("GET", "/customer", 404, 200), ("POST", "/customer", 201, 409), ("POST", "/charge", 500, 200)]
    {
        let mock =
            |status| Mock::given(method(verb)).and(path(place)).respond_with(ResponseTemplate::new(status));
        mock(first).up_to_n_times(1).with_priority(1).mount(&server).await;
        mock(then).with_priority(2).mount(&server).await;
    }
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    let run = engine.start::<Charge>(server.uri()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 200);

    let requests = server.received_requests().await.unwrap();
    let keys = |place: &str| -> Vec<_> {
        let sent = requests.iter().filter(|it| it.method.as_str() == "POST" && it.url.path() == place);
        sent.map(|it| it.headers["idempotency-key"].to_str().unwrap().to_owned()).collect()
    };
    let key = store.entries(run.id()).await.unwrap()[0].key.to_string();
    assert_eq!(keys("/customer"), std::slice::from_ref(&key));
    let charged = keys("/charge");
    assert_eq!(charged.len(), 2);
    assert!(charged[0] == charged[1] && charged[0] != key, "{charged:?}");
}

workflow!(GetWith(cx, asked: (String, String)) -> u16 {
    let (header, url) = asked;
    Ok(cx.http().get(url).header(&header, "v").send().await?.status)
});

#[tokio::test]
async fn a_header_that_is_not_known_to_be_harmless_stays_at_its_host() {
    let (there, here) = (MockServer::start().await, MockServer::start().await);
    Mock::given(path("/end")).respond_with(ResponseTemplate::new(200)).mount(&there).await;
    let away = ResponseTemplate::new(307).insert_header("location", &*format!("{}/end", there.uri()));
    Mock::given(path("/away")).respond_with(away).mount(&here).await;
    let client = HttpClient::builder().record_header("x-vault-token").build().unwrap();
    let store = MemoryStore::new();
    let engine = builder(&store).provide(client).start().await.unwrap();
    for (header, status) in [("x-vault-token", 307), ("x-tenant", 307), ("accept-language", 200)] {
        let asked = (header.to_owned(), format!("{}/away", here.uri()));
        let run = engine.start::<GetWith>(asked).await.unwrap();
        assert_eq!(run.result().await.unwrap(), status, "{header}");
        assert!(!recorded_text(&store, run.id()).await.contains("x-vault-token\":\"v"), "{header}");
    }
    assert_eq!(there.received_requests().await.unwrap().len(), 1);
}

step!(quotes(cx, base: String) -> u16, StepOptions::of(EffectClass::Read), {
    Ok(cx.http().get(base).send().await?.error_for_status()?.status)
});

workflow!(Quotes(cx, base: String) -> u16 {
    let args = <quotes as aether_core::step::Step>::encode(&base);
    Ok(aether_core::workflow::call_step::<quotes>(cx, args).await?)
});

#[tokio::test]
async fn what_an_error_quotes_of_an_answer_is_redacted_before_it_is_cut() {
    let server = MockServer::start().await;
    // The known text stands where the quotation is cut.
    let body = json!({ "password": "hunter2", "card": { "number": "4111" }, "said": "x".repeat(130), "t": "cut-in-two" });
    let text = body.to_string();
    assert!(text[..200].contains("cut-in") && !text[..200].contains("cut-in-two"), "{text}");
    Mock::given(method("GET"))
        .respond_with(ResponseTemplate::new(404).set_body_string(text))
        .mount(&server)
        .await;
    let store = MemoryStore::new();
    let masking = Masking::standard().text("cut-in-two").path("card.number");
    let engine = builder(&store).redact(masking).start().await.unwrap();
    let run = engine.start::<Quotes>(server.uri()).await.unwrap();
    let error = run.result().await.unwrap_err().to_string();
    assert!(error.contains("password"), "{error}");
    let text = recorded_text(&store, run.id()).await;
    for secret in ["hunter2", "4111", "cut-in"] {
        assert!(!text.contains(secret) && !error.contains(secret), "{secret}: {text}");
    }
}

workflow!(Listed(cx, url: String) -> (u16, u64) {
    let status = cx.http().get(url).send().await?.status;
    Ok((status, cx.random().await))
});

#[tokio::test]
async fn a_run_whose_journal_shows_a_secret_of_a_query_goes_on_where_it_is_masked_by_now() {
    let server = MockServer::start().await;
    Mock::given(path("/list")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    let store = MemoryStore::new();
    let engine = builder(&store).start().await.unwrap();
    let url = format!("{}/list?access_key=hunter2&page=1", server.uri());
    let run = engine.start::<Listed>(url).id("run").await.unwrap();
    run.result().await.unwrap();
    let asked = events(&store, run.id()).await.into_iter().find_map(|event| match event {
        Event::NodeStarted(e) if e.command.as_str() == "0:http.get" => Some((e.digest, e.input.unwrap())),
        _ => None,
    });
    let (digest, input) = asked.unwrap();
    assert!(input.as_str().contains("access_key=***") && !input.as_str().contains("hunter2"), "{input:?}");

    let (masked, open) = ("access_key=***", "access_key=hunter2");
    let former = Payload::from_text(input.as_str().replace(masked, open)).unwrap();
    let former = Digest::of(&former).unwrap();
    let half = MemoryStore::new();
    let rewrites = [(masked, open), (digest.as_str(), former.as_str())];
    kit::copy_rewritten(&half, &store, run.id(), "0:http.get", &rewrites).await;
    let engine = kit::successor(&half).register::<Listed>().start().await.unwrap();
    let run = engine.handle::<Listed>("run").await.unwrap();
    assert_eq!(run.result().await.unwrap().0, 200);
    assert_eq!(server.received_requests().await.unwrap().len(), 1, "the recorded answer is handed out");
}

/// Sends two orders that must not be repeated, and asks for something in between.
type Orders = (String, String, String);

workflow!(OrderTwice(cx, asked: Orders) -> String {
    let (base, first, again) = asked;
    let orders = format!("{base}/orders");
    cx.irreversible().http().post(&orders).body(first).send().await?.error_for_status()?;
    cx.http().get(format!("{base}/between")).send().await?;
    match cx.irreversible().http().post(&orders).body(again).send().await {
        Err(StepError::Taken(holder)) => Ok(format!("{} holds it", holder.command)),
        sent => Ok(sent?.status.to_string()),
    }
});

/// Gives a call the business key that builds had which made it of the body as it is.
struct FormerKey(MemoryStore);

impl Respond for FormerKey {
    fn respond(&self, _request: &Request) -> ResponseTemplate {
        let rows = self.0.entries(&"former".parse().unwrap()).now_or_never().unwrap().unwrap();
        for mut row in rows {
            let key = row.business_key.take().unwrap();
            let former = format!("{}{}", &key[..key.len() - 64], row.digest);
            assert_ne!(key, former);
            self.0.put_entry(LedgerEntry { business_key: Some(former), ..row });
        }
        ResponseTemplate::new(200)
    }
}

#[tokio::test]
async fn an_irreversible_request_is_not_repeated_because_its_body_has_its_members_in_another_order() {
    let of_map = || {
        let map: HashMap<String, u32> = (0..6).map(|n| (format!("f{n}"), n)).collect();
        serde_json::to_string(&map).unwrap()
    };
    let (text, turned) = (r#"{"b":1,"a":{"y":[2],"x":"\u00e9"}}"#, r#"{"a":{"x":"\u00e9","y":[2]},"b":1}"#);
    for (run, first, again, sent) in [
        ("same", text.to_owned(), text.to_owned(), 1),
        ("turned", text.to_owned(), turned.to_owned(), 1),
        ("back", turned.to_owned(), text.to_owned(), 1),
        ("map", of_map(), of_map(), 1),
        ("former", text.to_owned(), text.to_owned(), 1),
        ("other", text.to_owned(), text.replace('1', "7"), 2),
    ] {
        let (server, store) = (MockServer::start().await, MemoryStore::new());
        Mock::given(path("/orders")).respond_with(ResponseTemplate::new(201)).mount(&server).await;
        let between = Mock::given(path("/between"));
        match run {
            "former" => between.respond_with(FormerKey(store.clone())).mount(&server).await,
            _ => between.respond_with(ResponseTemplate::new(200)).mount(&server).await,
        }
        let engine = builder(&store).start().await.unwrap();
        let started = engine.start::<OrderTwice>((server.uri(), first, again)).id(run).await.unwrap();
        let said = started.result().await.unwrap();
        assert_eq!(said, if sent == 1 { "0:http.post holds it" } else { "201" }, "{run}");
        let requests = server.received_requests().await.unwrap();
        assert_eq!(requests.iter().filter(|it| it.url.path() == "/orders").count(), sent, "{run}");
    }
}
