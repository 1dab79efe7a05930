//! Pages that change by themselves: cut at every event, they lose none and repeat none.

use aether::id::RunId;
use aether::prelude::*;
use futures_util::StreamExt as _;
use reqwest::header::COOKIE;

use crate::kit::{Shop, Visitor};
use crate::stories::{booking, count_up, on_signal};

/// Reads events until `stop` says so, or the connection ends: id, kind and data of each.
async fn read(
    visitor: &Visitor,
    path: &str,
    last: Option<&str>,
    mut stop: impl FnMut(&[(String, String, String)]) -> bool,
) -> Vec<(String, String, String)> {
    let mut request = visitor.client.get(format!("{}{path}", visitor.url)).header(COOKIE, &visitor.cookie);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let mut pieces = request.send().await.unwrap().bytes_stream();
    let (mut text, mut found) = (String::new(), Vec::new());
    while let Some(piece) = pieces.next().await {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
        while let Some((event, rest)) = text.split_once("\n\n") {
            let of = |name: &str| {
                let lines = event.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                lines.collect::<Vec<_>>().join("\n")
            };
            let event = (of("id"), of("event"), of("data"));
            text = rest.to_owned();
            if !event.0.is_empty() {
                found.push(event);
                if stop(&found) {
                    return found;
                }
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_cut_at_every_event_gets_each_event_once() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = shop.engine.start::<count_up>(40).id("count").await.unwrap();
    run.result().await.unwrap();
    let total = shop.engine.store().run(run.id()).await.unwrap().unwrap().next;
    assert!(total > 100, "{total}");
    let (mut seen, mut last): (Vec<u64>, Option<String>) = (Vec::new(), None);
    while (seen.len() as u64) < total {
        // Cut behind the first event that comes.
        let found = read(&visitor, "/runs/count/live?after=0", last.as_deref(), |found| {
            found.iter().any(|(_, kind, _)| kind == "entry")
        })
        .await;
        let entry = found.iter().find(|(_, kind, _)| kind == "entry").unwrap();
        assert!(entry.2.contains(&format!("data-position=\"{}\"", entry.0)), "{entry:?}");
        seen.push(entry.0.parse().unwrap());
        last = Some(entry.0.clone());
    }
    assert_eq!(seen, (0..total).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_run_that_goes_on_gets_what_is_appended_also_by_another_process() {
    let shop = Shop::open().await;
    let run = RunId::new("signals").unwrap();
    shop.engine.start::<on_signal>(10).id("signals").await.unwrap();
    shop.wait_of("signals").await;
    // A client of its own, which sees nothing of what the engine appends but in the file.
    let client = Engine::builder().sqlite(shop.folder.path().join("shop.db")).client().start().await.unwrap();
    let here = shop.console().await;
    let server = Shop {
        engine: client,
        paid: std::sync::Arc::clone(&shop.paid),
        folder: tempfile::tempdir().unwrap(),
    };
    let there = server.console().await;
    let sent = async {
        for number in 0..10_u32 {
            shop.engine.signal(&run, "number", &number.to_string(), &number).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let until_end = |found: &[(String, String, String)]| {
        found.iter().any(|(_, _, data)| data.contains("run_completed"))
            && found.last().is_some_and(|last| last.1 == "changed")
    };
    let (one, other, ()) = tokio::join!(
        read(&here, "/runs/signals/live?after=0", None, until_end),
        read(&there, "/runs/signals/live?after=0", None, until_end),
        sent
    );
    let total = shop.engine.store().run(&run).await.unwrap().unwrap().next;
    for found in [one, other] {
        let positions: Vec<u64> =
            found.iter().filter(|event| event.1 == "entry").map(|event| event.0.parse().unwrap()).collect();
        assert_eq!(positions, (0..total).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_sent_when_it_is_another_one_and_not_to_whom_has_it() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    shop.engine.start::<booking>("1".to_owned()).id("first").await.unwrap().end().await.unwrap();
    let found =
        read(&visitor, "/live/runs", None, |found| found.last().is_some_and(|last| last.2.contains("first")))
            .await;
    let last = found.last().unwrap().0.clone();
    let second = async {
        shop.engine.start::<booking>("2".to_owned()).id("second").await.unwrap().end().await.unwrap();
    };
    let (found, ()) = tokio::join!(
        read(&visitor, "/live/runs", Some(&last), |found| found
            .last()
            .is_some_and(|last| last.2.contains("second"))),
        second
    );
    assert!(found.iter().all(|(id, kind, _)| *id != last && kind == "list"), "what it had is not sent again");
    let filtered = read(&visitor, "/live/runs?q=second", None, |_| true).await;
    assert!(filtered[0].2.contains("second") && !filtered[0].2.contains("first"));
}
