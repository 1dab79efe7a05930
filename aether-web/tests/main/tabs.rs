//! Live pages in a browser: many of them, and under the hands of somebody.

use aether::id::RunId;
use fantoccini::Locator;
use serde_json::Value;

use crate::browser::Browser;
use crate::kit::Shop;
use crate::screens::open;
use crate::stories::{booking, on_signal};

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_with_many_tabs_goes_on() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = RunId::new("signals").unwrap();
    shop.engine.start::<on_signal>(1).id("signals").await.unwrap();
    shop.wait_of("signals").await;
    let browser = Browser::open(1440, false).await;
    let page = &browser.page;
    let first = page.window().await.unwrap();
    for number in 0..8 {
        if number > 0 {
            let tab = page.new_window(true).await.unwrap();
            page.switch_to_window(tab.handle).await.unwrap();
        }
        let opened = open(&browser, &visitor, "/runs/signals");
        tokio::time::timeout(std::time::Duration::from_secs(60), opened).await.expect("a tab more opens");
        page.wait().for_element(Locator::Css("html[data-live=on]")).await.unwrap();
    }
    // What happened while it was hidden is there when it is seen again.
    shop.engine.signal(&run, "number", "1", &1_u32).await.unwrap();
    page.wait().for_element(Locator::Css("#head .chip.completed")).await.unwrap();
    page.switch_to_window(first).await.unwrap();
    page.wait().for_element(Locator::Css("#head .chip.completed")).await.unwrap();
    // A run that has ended holds no connection.
    assert!(!visitor.page("/runs/signals").await.contains("sse-connect"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_while_somebody_is_busy_comes_when_they_are_not() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = RunId::new("signals").unwrap();
    shop.engine.start::<on_signal>(2).id("signals").await.unwrap();
    shop.wait_of("signals").await;
    let browser = Browser::open(1440, false).await;
    let page = &browser.page;
    let has = async |css: &str| {
        let script = "return document.querySelector(arguments[0]) !== null";
        page.execute(script, vec![css.into()]).await.unwrap() == Value::Bool(true)
    };
    open(&browser, &visitor, "/runs/signals").await;
    page.wait().for_element(Locator::Css("html[data-live=on]")).await.unwrap();
    // At once: what comes between the two closes the form again.
    let script = "document.querySelectorAll('#panel details').forEach(d => { d.open = true });
        document.querySelector('#panel [name=name]').focus();
        return document.activeElement.name";
    assert_eq!(page.execute(script, vec![]).await.unwrap(), Value::from("name"));
    for number in 1..=2_u32 {
        shop.engine.signal(&run, "number", &number.to_string(), &number).await.unwrap();
    }
    page.wait().for_element(Locator::Css("html[data-stale] #head .chip.completed")).await.unwrap();
    assert!(has("#panel [name=name]").await, "the form is still there");
    page.execute("document.activeElement.blur()", vec![]).await.unwrap();
    page.wait().for_element(Locator::XPath("//*[@id='panel']//h3[text()='Result']")).await.unwrap();
    assert!(!has("html[data-stale]").await);

    // The same of a list, behind a form that was typed in.
    shop.complaint("complaint-7").await;
    open(&browser, &visitor, "/inbox").await;
    page.wait().for_element(Locator::Css("html[data-live=on]")).await.unwrap();
    let script = "document.querySelectorAll('#list details').forEach(d => { d.open = true });
        document.querySelector('#list [name=reason]').focus();
        return document.activeElement.name";
    assert_eq!(page.execute(script, vec![]).await.unwrap(), Value::from("reason"));
    page.active_element().await.unwrap().send_keys("because").await.unwrap();
    shop.complaint("complaint-8").await;
    page.wait().for_element(Locator::Css("html[data-stale]")).await.unwrap();
    let says = page.find(Locator::Css(".stale")).await.unwrap().is_displayed().await.unwrap();
    assert!(says && !has("#list a[href='/runs/complaint-8']").await);
    page.execute(
        "document.activeElement.blur(); document.querySelector('#list form[data-dirty]').reset()",
        vec![],
    )
    .await
    .unwrap();
    page.wait().for_element(Locator::Css("#list a[href='/runs/complaint-8']")).await.unwrap();
    assert!(!has("html[data-stale]").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_panel_of_a_step_the_badge_and_the_times_stay_true() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let wait = shop.complaint("complaint-7").await;
    let browser = Browser::open(1440, false).await;
    let page = &browser.page;
    open(&browser, &visitor, &format!("/runs/complaint-7?step={}", wait.command)).await;
    page.wait().for_element(Locator::Css("html[data-live=on]")).await.unwrap();
    shop.engine.approve(&wait.run, &wait, "ada").await.unwrap();
    page.wait().for_element(Locator::Css("#panel .chip.completed")).await.unwrap();
    page.wait().for_element(Locator::Css("#head .chip.completed")).await.unwrap();
    // A page without a stream.
    open(&browser, &visitor, "/workers").await;
    page.wait().for_element(Locator::Css(".badge[hidden]")).await.unwrap();
    shop.complaint("complaint-8").await;
    page.wait().for_element(Locator::Css(".badge:not([hidden])")).await.unwrap();
    // Time goes on by itself.
    shop.engine.start::<booking>("1".to_owned()).id("old").await.unwrap().end().await.unwrap();
    open(&browser, &visitor, "/runs/old").await;
    let turn = "const t = document.querySelector('#head time'); t.dateTime = new Date(Date.now() - 7200000 - 1000).toISOString()";
    page.wait().for_element(Locator::Css("#head time")).await.unwrap();
    page.execute(turn, vec![]).await.unwrap();
    page.wait().for_element(Locator::XPath("//*[@id='head']//time[text()='2 h ago']")).await.unwrap();
}
