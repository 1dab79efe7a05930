//! What forms do, over HTTP: each is one call of the engine, under the name of who sent it.

use std::sync::atomic::Ordering;

use aether::id::RunId;
use aether::store::event::Event;
use aether::view::Status;
use aether_web::{Actions, Options};
use reqwest::StatusCode;
use reqwest::header::LOCATION;

use crate::kit::{Shop, between, tied};
use crate::stories::{booking, on_signal, transfer, welcome};

async fn events(shop: &Shop, run: &str) -> Vec<Event> {
    let run = RunId::new(run).unwrap();
    let frames = shop.engine.store().load(&run, 0).await.unwrap();
    frames.iter().flat_map(|frame| frame.events().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_as_proposed_records_no_edit_and_one_with_changes_records_both() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    for (id, cents) in [("complaint-1", "2090"), ("complaint-2", "1500")] {
        let wait = shop.complaint(id).await;
        let [(_, command), (_, shown)] = tied(&wait);
        let fields = [
            ("command", &*command),
            ("shown", &*shown),
            ("approve", "edited"),
            ("arg.customer", "ann@example.com"),
            ("arg.cents", cents),
            ("arg.note", "One of two lamps was broken.\r\nWe are sorry."),
            ("arg.speed", "normal"),
        ];
        let answer = visitor.submit(&format!("/runs/{id}/approve"), &fields).await;
        let done = if cents == "2090" { "approved" } else { "edited" };
        assert_eq!(answer.headers()[LOCATION], format!("/runs/{id}?done={done}"));
        shop.engine.find(id).await.unwrap().end().await.unwrap();
        let view = shop.engine.view(&RunId::new(id).unwrap()).await.unwrap();
        let paid = view.steps.iter().find(|step| step.command.name() == "pay_back").unwrap();
        assert_eq!(paid.edited.is_some(), cents != "2090");
        let result: String = paid.result.clone().unwrap().unwrap().decode().unwrap();
        assert!(
            result.contains(&format!("paid {cents} cents")) && result.contains("broken.\nWe"),
            "{result}"
        );
        let decided = events(&shop, id).await.into_iter().find_map(|event| match event {
            Event::ApprovalDecided(e) => Some(e.actor),
            _ => None,
        });
        assert_eq!(decided.as_deref(), Some("ada"));
    }
    assert_eq!(shop.paid.0.load(Ordering::SeqCst), 2);
    let page = visitor.page("/runs/complaint-2").await;
    assert!(page.contains("Dear customer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_are_refused_and_the_approval_stays_open() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let wait = shop.complaint("complaint-1").await;
    let [(_, command), (_, shown)] = tied(&wait);
    for cents in ["many", "-1", "1.5"] {
        let fields =
            [("command", &*command), ("shown", &*shown), ("approve", "edited"), ("arg.cents", cents)];
        let answer = visitor.submit("/runs/complaint-1/approve", &fields).await;
        assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY, "{cents}");
    }
    let answer = visitor
        .submit(
            "/runs/complaint-1/reject",
            &[("command", &command), ("shown", &shown), ("reason", "too much")],
        )
        .await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    let answer =
        visitor.submit("/runs/complaint-1/approve", &[("command", &command), ("shown", &shown)]).await;
    assert_eq!(answer.status(), StatusCode::CONFLICT, "it was decided");
    assert_eq!(shop.paid.0.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_signals_and_unknown_outcomes_are_answered() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let welcomed = shop.engine.start::<welcome>("Ann".to_owned()).id("welcome").await.unwrap();
    let wait = shop.wait_of("welcome").await;
    let [(_, command), (_, shown)] = tied(&wait);
    let fields = [("command", &*command), ("shown", &*shown), ("value", "Dr. Ann"), ("as", "auto")];
    assert_eq!(visitor.submit("/runs/welcome/answer", &fields).await.status(), StatusCode::SEE_OTHER);
    let page = visitor.page("/runs/welcome").await;
    let id = between(&page, "name=\"id\" value=\"", "\"").to_owned();
    // A run that expects a number would end with nothing.
    for kind in ["auto", "json"] {
        let empty = [("id", &*id), ("name", "paid"), ("value", " "), ("as", kind)];
        assert_eq!(visitor.submit("/runs/welcome/signal", &empty).await.status(), StatusCode::BAD_REQUEST);
    }
    let fields = [("id", &*id), ("name", "paid"), ("value", "12"), ("as", "auto")];
    let first = visitor.submit("/runs/welcome/signal", &fields).await;
    assert_eq!(first.headers()[LOCATION], "/runs/welcome?done=signalled");
    assert_eq!(welcomed.result().await.unwrap(), "Dr. Ann paid 12");
    let signal = events(&shop, "welcome").await.into_iter().find_map(|event| match event {
        Event::SignalReceived(e) => Some(e.id),
        _ => None,
    });
    assert!(
        signal.as_ref().is_some_and(|id| id.contains("console:ada:")),
        "the journal says who sent it: {signal:?}"
    );
    let foreign = [("id", "console:bob:1"), ("name", "paid"), ("value", "1"), ("as", "json")];
    assert_eq!(visitor.submit("/runs/welcome/signal", &foreign).await.status(), StatusCode::BAD_REQUEST);

    let run = shop.engine.start::<transfer>("DE89".to_owned()).id("transfer").await.unwrap();
    let wait = shop.wait_of("transfer").await;
    let invocation = wait.invocation.clone().unwrap().to_string();
    let [(_, command), (_, shown)] = tied(&wait);
    let decide = |value: &'static str| {
        let fields = [
            ("command", &*command),
            ("shown", &*shown),
            ("invocation", &*invocation),
            ("decision", "happened"),
            ("value", value),
        ];
        let fields: Vec<(String, String)> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        fields
    };
    let send = async |value: &'static str| {
        let fields = decide(value);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        visitor.submit("/runs/transfer/resolve", &fields).await.status()
    };
    assert_eq!(send("no json").await, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(send("17").await, StatusCode::UNPROCESSABLE_ENTITY, "the step returns a text");
    assert_eq!(send("\"receipt-17\"").await, StatusCode::SEE_OTHER);
    assert_eq!(run.result().await.unwrap(), "receipt-17");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_cancelled_with_reason_and_actor() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = shop.engine.start::<on_signal>(3).id("waits").await.unwrap();
    shop.wait_of("waits").await;
    let answer = visitor.submit("/runs/waits/end", &[("how", "cancel"), ("reason", "not needed")]).await;
    assert_eq!(answer.headers()[LOCATION], "/runs/waits?done=cancelling");
    run.end().await.unwrap();
    assert_eq!(run.status().await.unwrap(), Status::Cancelled);
    let ended = events(&shop, "waits").await.into_iter().find_map(|event| match event {
        Event::RunCancelled(e) => Some((e.reason, e.actor)),
        _ => None,
    });
    assert_eq!(ended, Some(("not needed".into(), "ada".into())));
    let answer = visitor.submit("/runs/waits/end", &[("how", "cancel"), ("reason", "again")]).await;
    assert_eq!(answer.headers()[LOCATION], "/runs/waits?done=duplicate");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_started_by_the_bill_that_was_shown_and_by_no_other() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    shop.engine.start::<booking>("12A".to_owned()).id("booking").await.unwrap().end().await.unwrap();
    let page = visitor.page("/runs/booking/fork?before=start").await;
    let bill = between(&page, "name=\"bill\" value=\"", "\"").to_owned();
    let announce = between(&page, "name=\"call.", "\"").to_owned();
    assert!(announce.ends_with(":announce"), "{announce}");
    let field = format!("call.{announce}");
    let fork = between(&page, "name=\"fork\" value=\"", "\"").to_owned();
    let send = async |bill: &str, decision: &str| {
        let fields = [("before", "start"), ("bill", bill), ("fork", &*fork), (field.as_str(), decision)];
        visitor.submit("/runs/booking/fork", &fields).await
    };
    assert_eq!(send("0000", "keep").await.status(), StatusCode::CONFLICT);
    assert_eq!(send(&bill, "").await.status(), StatusCode::UNPROCESSABLE_ENTITY, "undecided");
    let started = send(&bill, "keep").await;
    assert_eq!(started.status(), StatusCode::SEE_OTHER);
    let place = started.headers()[LOCATION].to_str().unwrap().to_owned();
    assert!(place.starts_with("/runs/booking~fork-c"), "{place}");
    // A double click, also when the bill has changed since.
    for bill in [&*bill, "0000"] {
        assert_eq!(send(bill, "keep").await.headers()[LOCATION].to_str().unwrap(), place);
    }
    let runs = shop.engine.runs(aether::store::RunFilter::new().limit(10)).await.unwrap();
    assert_eq!(runs.len(), 2, "one fork was started");
    let fork = visitor.page(&place).await;
    assert!(fork.contains("fork of") && fork.contains("what differs"));
    let differs = visitor.page(&format!("{}/difference", place.split('?').next().unwrap())).await;
    assert!(differs.contains("commands are the same") || differs.contains("Nothing differs"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_fork_and_not_end_ends_no_origin_and_forms_have_no_other_fields() {
    let shop = Shop::open().await;
    let forks = shop.console_with(Options::new().allow(Actions::FORK).actor("bob")).await;
    let run = shop.engine.start::<on_signal>(1).id("waits").await.unwrap();
    shop.wait_of("waits").await;
    let page = forks.page("/runs/waits/fork?before=start").await;
    assert!(!page.contains("value=\"end\"") && page.contains("value=\"leave\""), "{page}");
    let bill = between(&page, "name=\"bill\" value=\"", "\"").to_owned();
    let fork = between(&page, "name=\"fork\" value=\"", "\"").to_owned();
    let fields = [("before", "start"), ("bill", &*bill), ("fork", &*fork)];
    let sent = forks.submit("/runs/waits/fork", &[&fields[..], &[("origin", "end")]].concat()).await;
    assert_eq!(sent.status(), StatusCode::FORBIDDEN);
    let unknown = [("origin", "leave"), ("call.0:other", "again")];
    let sent = forks.submit("/runs/waits/fork", &[&fields[..], &unknown].concat()).await;
    assert_eq!(sent.status(), StatusCode::BAD_REQUEST);
    assert!(!run.status().await.unwrap().is_terminal());
    assert_eq!(shop.engine.runs(aether::store::RunFilter::new()).await.unwrap().len(), 1);
    let ends = shop.console().await;
    let sent = ends.submit("/runs/waits/fork", &[&fields[..], &[("origin", "end")]].concat()).await;
    assert_eq!(sent.status(), StatusCode::SEE_OTHER);
    assert!(run.status().await.unwrap().is_terminal());
}
