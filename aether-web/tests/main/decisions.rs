//! Approvals and questions as they are shown and answered: what is agreed to is what was shown.

use aether::id::RunId;
use aether::prelude::*;
use aether_web::{Actions, Options};
use fantoccini::Locator;
use reqwest::StatusCode;
use reqwest::header::LOCATION;

use crate::browser::Browser;
use crate::kit::{Shop, between, tied};
use crate::screens::open;
use crate::stories::{ask_for_tool, consent, mail};

/// What `send_mail` was called with, in the end, and whether somebody changed it.
async fn sent(shop: &Shop, run: &str) -> (String, bool) {
    shop.engine.find(run).await.unwrap().end().await.unwrap();
    let view = shop.engine.view(&RunId::new(run).unwrap()).await.unwrap();
    let step = view.steps.iter().find(|step| step.command.name() == "send_mail").unwrap();
    (step.result.clone().unwrap().unwrap().decode().unwrap(), step.edited.is_some())
}

/// Clicks what is there at that moment: a page may be brought up to date before.
async fn click(page: &fantoccini::Client, css: &str) {
    page.wait().for_element(Locator::Css(css)).await.unwrap();
    page.execute("document.querySelector(arguments[0]).click()", vec![css.into()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_that_nobody_touched_executes_what_was_proposed() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let browser = Browser::open(1440, false).await;
    let page = &browser.page;
    let long = "я".repeat(200_000);
    for (id, text) in [("short", "Hello"), ("long", &*long)] {
        shop.engine.start::<mail>(format!("Mail: {text}")).id(id).await.unwrap();
        shop.wait_of(id).await;
        open(&browser, &visitor, &format!("/runs/{id}")).await;
        click(page, "button[value='shown']").await;
        let said = page.wait().for_element(Locator::Css(".flash")).await.unwrap().text().await.unwrap();
        assert_eq!(said, "Approved. The run goes on.");
        let called = format!("{} characters to ann@example.com, None, None, None", text.chars().count());
        assert_eq!(sent(&shop, id).await, (called, false));
    }
    // The form for changes, sent back as it is, and with one of them.
    for (id, priority) in [("same", None), ("urgent", Some("urgent"))] {
        shop.engine.start::<mail>("Mail: Hello".to_owned()).id(id).await.unwrap();
        shop.wait_of(id).await;
        open(&browser, &visitor, &format!("/runs/{id}")).await;
        // Under the hands of somebody nothing is replaced.
        page.wait().for_element(Locator::Css("#panel article details summary")).await.unwrap();
        page.execute("document.querySelector('#panel article details summary').focus()", vec![])
            .await
            .unwrap();
        click(page, "#panel article details summary").await;
        if let Some(priority) = priority {
            let choose = "const list = document.querySelector(\"select[name='arg.priority']\"); list.value = arguments[0]; \
                          list.dispatchEvent(new Event('input', { bubbles: true }))";
            page.execute(choose, vec![priority.into()]).await.unwrap();
        }
        click(page, "button[value='edited']").await;
        page.wait().for_element(Locator::Css(".flash")).await.unwrap();
        let what = if priority.is_some() { "Some(Urgent), None, None" } else { "None, None, None" };
        assert_eq!(
            sent(&shop, id).await,
            (format!("5 characters to ann@example.com, {what}"), priority.is_some())
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_arguments_that_do_not_say_so_are_not_taken_and_not_dropped() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let wait = shop.complaint("complaint-1").await;
    let [(_, command), (_, shown)] = tied(&wait);
    let fields = [("command", &*command), ("shown", &*shown), ("approve", "shown"), ("arg.cents", "1")];
    let answer = visitor.submit("/runs/complaint-1/approve", &fields).await;
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    assert_eq!(shop.engine.pending(&wait.run).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_decided_about_is_shown_whole_or_not_agreed_to() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let text = |length: usize| format!("Mail: {}THE-END", "a".repeat(length));
    shop.engine.start::<mail>(text(300_000)).id("whole").await.unwrap();
    shop.wait_of("whole").await;
    let page = visitor.page("/runs/whole").await;
    let card = between(&page, "<article", "</article>");
    let shown = between(card, "<h3>Arguments</h3>", "</pre>");
    assert!(shown.contains("THE-END") && card.contains("value=\"shown\""), "{} bytes", shown.len());
    shop.engine.start::<mail>(text(1_200_000)).id("cut").await.unwrap();
    shop.wait_of("cut").await;
    let page = visitor.page("/runs/cut").await;
    let card = between(&page, "<article", "</article>");
    assert!(!card.contains("name=\"approve\"") && card.contains("too long to be shown whole"));
    assert!(card.contains("Reject"), "it can be rejected");
    // The matter of a consent is longer than a title.
    let matter = format!("{} THE-END", "May it? ".repeat(40));
    shop.engine.start::<consent>(matter).id("consent").await.unwrap();
    shop.wait_of("consent").await;
    let page = visitor.page("/runs/consent").await;
    assert!(between(&page, "<article", "</article>").contains("THE-END"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_tool_is_answered_declined_and_cancelled() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let answers = [
        ("form", false, vec![("action", "accept"), ("arg.amount", "7"), ("arg.way", "b"), ("arg.fast", "")]),
        ("declined", false, vec![("action", "decline")]),
        ("cancelled", false, vec![("action", "cancel")]),
        ("page", true, vec![("action", "accept")]),
    ];
    let expected = [
        serde_json::json!({ "action": "accept", "content": { "amount": 7, "way": "b" } }),
        serde_json::json!({ "action": "decline" }),
        serde_json::json!({ "action": "cancel" }),
        serde_json::json!({ "action": "accept" }),
    ];
    for ((id, is_page, answer), expected) in answers.into_iter().zip(expected) {
        let run = shop.engine.start::<ask_for_tool>(is_page).id(id).await.unwrap();
        let wait = shop.wait_of(id).await;
        let card = visitor.page(&format!("/runs/{id}")).await;
        assert!(card.contains("How much may it be?") && card.contains("value=\"decline\""), "{card}");
        assert_eq!(card.contains("https://bank.example/login"), is_page);
        assert_eq!(card.contains("By bank"), !is_page, "choices have their titles");
        let [(_, command), (_, shown)] = tied(&wait);
        let tied = [("command", &*command), ("shown", &*shown)];
        let place = format!("/runs/{id}/answer");
        // Without an action, or with a field that does not fit, nothing is sent.
        for wrong in [&[][..], &[("action", "accept"), ("arg.amount", "much")]] {
            if !(is_page && wrong.len() == 2) {
                let refused = visitor.submit(&place, &[&tied, wrong].concat()).await;
                assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY, "{id} {wrong:?}");
            }
        }
        let done = visitor.submit(&place, &[&tied[..], &answer].concat()).await;
        assert_eq!(done.headers()[LOCATION], format!("/runs/{id}?done=answered"));
        assert_eq!(serde_json::to_value(run.result().await.unwrap()).unwrap(), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_no_program_takes_yet_is_seen_and_not_made_twice() {
    let shop = Shop::open().await;
    let wait = shop.complaint("complaint-1").await;
    let Shop { engine, folder, paid } = shop;
    engine.shutdown().await.unwrap();
    let file = folder.path().join("shop.db");
    let engine = Engine::builder().sqlite(file).client().start().await.unwrap();
    let shop = Shop { engine, folder, paid };
    let visitor = shop.console_with(Options::new().allow(Actions::DECIDE).actor("ada")).await;
    let [(_, command), (_, shown)] = tied(&wait);
    let decide = async |at: &str| {
        let fields = [("command", &*command), ("shown", &*shown), ("reason", "no"), ("approve", "shown")];
        visitor.submit(&format!("/runs/complaint-1/{at}"), &fields).await
    };
    assert!(visitor.page("/inbox").await.contains("value=\"shown\""));
    let recorded = decide("approve").await;
    assert_eq!(recorded.headers()[LOCATION], "/runs/complaint-1?done=recorded");
    assert!(visitor.page("/runs/complaint-1?done=recorded").await.contains("It takes effect when a program"));
    for page in ["/inbox", "/runs/complaint-1"] {
        let page = visitor.page(page).await;
        let card = between(&page, "<article", "</article>");
        assert!(card.contains("Decided, not taken yet") && !card.contains("<button"), "{card}");
    }
    // Another decision is refused, and does not tell people who made the first one.
    let late = decide("reject").await;
    assert_eq!(late.status(), StatusCode::CONFLICT);
    let why = late.text().await.unwrap();
    assert!(why.contains("Somebody else has decided") && !why.contains("ada"), "{why}");
}
