//! Every page in a browser: at 390 and 1,440 pixels, in both themes.
//!
//! Each must fit its width and have no violation that axe-core finds. The pictures are left in `target/console`.

use std::path::{Path, PathBuf};

use aether::id::RunId;
use serde_json::Value;

use crate::browser::Browser;
use crate::kit::{Shop, Visitor};
use crate::stories::{booking, complaint, digest, transfer, welcome};

fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}

/// A shop in which something of everything goes on.
pub(crate) async fn busy_shop() -> Shop {
    let shop = Shop::open().await;
    let engine = &shop.engine;
    engine
        .start::<booking>("12A".to_owned())
        .id("booking-12a")
        .label("customer", "bob")
        .await
        .unwrap()
        .end()
        .await
        .unwrap();
    engine
        .start::<transfer>("DE89 3704".to_owned())
        .id("transfer-88")
        .label("customer", "acme")
        .await
        .unwrap();
    shop.wait_of("transfer-88").await;
    engine.start::<welcome>("Ann".to_owned()).id("welcome-ann").await.unwrap();
    shop.wait_of("welcome-ann").await;
    engine.start::<digest>(1).id("digest-monday").await.unwrap().result().await.unwrap();
    engine.start::<digest>(3_600).id("digest-tuesday").await.unwrap();
    shop.complaint("complaint-6").await;
    let wait = shop.wait_of("complaint-6").await;
    let edited = serde_json::json!({ "customer": "ann@example.com", "cents": 1500, "note": "One of two lamps was broken.\nWe are very sorry.", "urgent": true, "speed": "express" });
    engine.approve_with(&RunId::new("complaint-6").unwrap(), &wait, &edited, "ada").await.unwrap();
    engine.find("complaint-6").await.unwrap().end().await.unwrap();
    shop.complaint("complaint-7").await;
    for number in 1..=9 {
        engine
            .start::<complaint>(format!("Order {number}"))
            .id(format!("order-{number}"))
            .label("customer", "acme")
            .await
            .unwrap();
    }
    engine.start::<digest>(0).id("digest-sunday").await.unwrap().result().await.unwrap();
    shop
}

pub(crate) async fn open(browser: &Browser, visitor: &Visitor, path: &str) {
    let page = &browser.page;
    let (name, value) = visitor.cookie.split_once('=').unwrap();
    let cookie = serde_json::json!({ "name": name, "value": value, "url": visitor.url, "sameSite": "Strict", "httpOnly": true });
    browser.call("Network.setCookie", cookie).await;
    page.goto(&format!("{}{path}", visitor.url)).await.unwrap();
}

const PAGES: [(&str, &str); 12] = [
    ("runs", "/"),
    ("runs-filtered", "/?status=failed&label=customer%3Dnobody"),
    ("inbox", "/inbox"),
    ("run-approval", "/runs/complaint-7"),
    ("run-model", "/runs/complaint-6?step=0.1.0:model"),
    ("run-edited", "/runs/complaint-6?step=edited"),
    ("run-branches", "/runs/digest-monday"),
    ("run-unknown", "/runs/transfer-88"),
    ("run-failed", "/runs/booking-12a"),
    ("fork", "/runs/booking-12a/fork?before=start"),
    ("workflows", "/workflows"),
    ("cost", "/cost"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_fits_and_is_accessible_at_both_widths_in_both_themes() {
    let axe = target().join("axe/node_modules/axe-core/axe.min.js");
    let axe = std::fs::read_to_string(&axe)
        .unwrap_or_else(|error| panic!("{}: {error}; scripts/axe installs it", axe.display()));
    let shop = busy_shop().await;
    let visitor = shop.console().await;
    let view = shop.engine.view(&RunId::new("complaint-6").unwrap()).await.unwrap();
    let of = |name: &str| {
        view.steps
            .iter()
            .rev()
            .find(|step| step.command.name() == name || step.class.as_str() == name)
            .unwrap()
            .command
            .to_string()
    };
    let pictures = target().join("console");
    std::fs::create_dir_all(&pictures).unwrap();
    let more =
        [("workers", "/workers"), ("journal", "/runs/complaint-6/journal"), ("not-found", "/runs/nobody")];
    let mut faults = Vec::new();
    for (width, dark) in [(1440, false), (1440, true), (390, false), (390, true)] {
        let browser = Browser::open(width, dark).await;
        for (name, path) in PAGES.iter().chain(&more) {
            let path = path.replace("0.1.0:model", &of("llm")).replace("edited", &of("pay_back"));
            browser.resize(width, 900).await;
            open(&browser, &visitor, &path).await;
            let overflow =
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            let overflow = browser.page.execute(overflow, vec![]).await.unwrap();
            if overflow != 0 {
                faults.push(format!("{name} at {width}: {overflow} pixels too wide"));
            }
            if !dark || width == 390 {
                let rules = if dark { "{ runOnly: ['color-contrast'] }" } else { "{}" };
                faults.extend(
                    violations(&browser, &axe, rules)
                        .await
                        .iter()
                        .map(|fault| format!("{name} at {width}, dark: {dark}: {fault}")),
                );
            }
            let theme = if dark { "dark" } else { "light" };
            std::fs::write(pictures.join(format!("{name}-{width}-{theme}.png")), browser.picture().await)
                .unwrap();
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What axe-core finds on the page that is open.
async fn violations(browser: &Browser, axe: &str, rules: &str) -> Vec<Value> {
    browser.page.execute(axe, vec![]).await.unwrap();
    let run = "const done = arguments[arguments.length - 1]; axe.run(document, Object.assign({ resultTypes: ['violations'] }, RULES))\
               .then(found => done(found.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join(' | '))))";
    let found = browser.page.execute_async(&run.replace("RULES", rules), vec![]).await.unwrap();
    found.as_array().unwrap().clone()
}
