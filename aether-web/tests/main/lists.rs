//! Lists and sums: what is listed, what is said where nothing is, and what is told to whom.

use aether::id::RunId;
use aether_web::{Actions, Options, Role};
use reqwest::StatusCode;

use crate::kit::{Shop, Visitor, between};
use crate::stories::{ask_for_tool, booking, consent, digest, hostile, on_signal, read_again, transfer};

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_not_understood_lists_nothing_and_says_so() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    shop.engine.start::<booking>("1".to_owned()).id("broken").await.unwrap().end().await.unwrap();
    for query in
        ["version=one", "label=customer", "label=%3Dacme", "status=lost", "why=because", "after=there"]
    {
        let page = visitor.page(&format!("/?{query}")).await;
        assert!(page.contains("Not understood") && !page.contains("/runs/broken"), "{query}");
    }
    assert!(visitor.page("/?version=1&status=failed").await.contains("/runs/broken"));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_none_of_the_newest_is_like_that_older_ones_can_be_looked_at() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    shop.engine.start::<transfer>("DE89".to_owned()).id("in-doubt").await.unwrap();
    shop.wait_of("in-doubt").await;
    let starts = (0..1_000).map(|number| {
        let engine = shop.engine.clone();
        async move { engine.start::<on_signal>(1).id(format!("waits-{number}")).await.unwrap() }
    });
    futures_util::future::join_all(starts).await;
    let page = visitor.page("/?why=doubt").await;
    assert!(page.contains("None among these 1000 runs"), "{}", between(&page, "id=\"list\"", "</nav>"));
    let next = between(&page, "<a class=\"button\" href=\"/?why=doubt&#38;after=", "\"").to_owned();
    let older = visitor.page(&format!("/?why=doubt&after={next}")).await;
    assert!(older.contains("/runs/in-doubt"));
}

/// The id of the first event of a stream.
async fn first_id(visitor: &Visitor, path: &str) -> String {
    let mut answer = visitor.get(path).await;
    let mut text = String::new();
    while !text.contains("\n\n") {
        text.push_str(std::str::from_utf8(&answer.chunk().await.unwrap().unwrap()).unwrap());
    }
    text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_on_which_nothing_happens_is_not_another_one_as_time_goes_on() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = shop.engine.start::<digest>(50).id("digest").await.unwrap();
    loop {
        let page = visitor.page("/").await;
        if page.contains("Sleeps, wakes") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let once = first_id(&visitor, "/live/runs").await;
    // Longer than what is said of the time stays the same: `in 49 s`, `in 48 s`.
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    assert_eq!(first_id(&visitor, "/live/runs").await, once);
    let journal = visitor.page("/runs/digest/journal").await;
    assert!(journal.contains(" UTC</time>"), "a clock says of which day and zone it is");
    drop(run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_fork_has_copied_costs_once() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let wait = shop.complaint("complaint-7").await;
    shop.engine.approve(&wait.run, &wait, "ada").await.unwrap();
    shop.engine.find("complaint-7").await.unwrap().end().await.unwrap();
    let calls = async || -> u32 {
        let page = visitor.page("/cost").await;
        let before = page.split("</b><span>calls").next().unwrap();
        before.rsplit_once("<b>").unwrap().1.parse().unwrap()
    };
    let first = calls().await;
    assert!(first >= 3, "{first}");
    let run = RunId::new("complaint-7").unwrap();
    let view = shop.engine.view(&run).await.unwrap();
    let last = view.steps.iter().rev().find(|step| step.class.as_str() == "llm").unwrap();
    let plan = shop.engine.fork(&run).before(last.command.as_str()).plan().await.unwrap();
    plan.start("ada").await.unwrap().end().await.unwrap();
    assert_eq!(calls().await, first + 1, "the fork itself made one call");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_no_actors_errors_arguments_of_a_bill_or_settings() {
    let shop = Shop::open().await;
    let people = shop.console_with(Options::new().allow(Actions::ALL).role(Role::People).actor("bob")).await;
    let auditor = shop.console().await;
    let budget = aether::prelude::Budget::new().tokens(987_654);
    // An answer that does not fit, by somebody else.
    let run = shop.engine.start::<ask_for_tool>(false).id("asks").await.unwrap();
    let wait = shop.wait_of("asks").await;
    shop.engine.answer(run.id(), &wait, &"no answer", "carla@example.com").await.unwrap();
    while shop.wait_of("asks").await.refused.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    shop.engine.start::<read_again>("one".to_owned()).id("retries").await.unwrap();
    shop.engine.start::<on_signal>(1).budget(budget).id("budget").await.unwrap();
    shop.wait_of("budget").await;
    shop.engine.start::<booking>("SECRET-SEAT".to_owned()).id("booking").await.unwrap().end().await.unwrap();
    while !auditor.page("/").await.contains("SECRET-ERROR") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let told = [
        ("/runs/asks", "carla@example.com", "did not fit"),
        ("/", "SECRET-ERROR", "Retrying fail_with (attempt 2)"),
        ("/runs/retries", "SECRET-ERROR", "Retrying fail_with (attempt 2)"),
        ("/runs/booking/fork?before=start", "SECRET-SEAT", "announce"),
        ("/runs/budget", "987654 tokens", "Budgets"),
    ];
    for (path, secret, both) in told {
        let (auditors, peoples) = (auditor.page(path).await, people.page(path).await);
        assert!(auditors.contains(secret) && auditors.contains(both), "{path}: {auditors}");
        assert!(!peoples.contains(secret), "{path}: {peoples}");
        assert!(peoples.contains(both), "{path}: {peoples}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_turns_its_direction_wherever_it_stands() {
    const TURNED: &str = "pay \u{202e}nna\u{202c} \u{2066}now\u{2069} \u{200e}\u{200f}\u{61c}!";
    let shop = Shop::open().await;
    let id = format!("run {TURNED}");
    let run =
        shop.engine.start::<hostile>(TURNED.to_owned()).id(&*id).label("customer", TURNED).await.unwrap();
    let wait = shop.wait_of(&id).await;
    let visitor = shop.console_with(Options::new().allow(Actions::ALL).role(Role::Audit).actor(TURNED)).await;
    let part =
        |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let inside = format!("/runs/{}", part(&id));
    let mut pages = vec!["/".to_owned(), "/inbox".into(), "/workers".into(), inside.clone()];
    pages.extend([format!("{inside}/journal"), format!("{inside}/fork"), format!("/?q={}", part(TURNED))]);
    let view = shop.engine.view(run.id()).await.unwrap();
    pages.extend(view.steps.iter().map(|step| format!("{inside}?step={}", part(step.command.as_str()))));
    let turns = |text: &str| {
        text.contains(|c| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    for page in &pages {
        let text = visitor.page(page).await;
        assert!(!turns(&text), "{page}");
        assert!(text.contains("\\u{202e}"), "{page} shows it");
    }
    for missing in [format!("{inside}?step={}", part(TURNED)), format!("/runs/{}", part(TURNED))] {
        let answer = visitor.get(&missing).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert!(!turns(&answer.text().await.unwrap()), "{missing}");
    }
    // Live lists as well, and what is approved unchanged by the form for changes is unchanged.
    let mut live = visitor.get("/live/inbox").await;
    let piece = live.chunk().await.unwrap().unwrap();
    assert!(!turns(std::str::from_utf8(&piece).unwrap()));
    let page = visitor.page(&inside).await;
    let edited = between(&page, "<div class=\"fields\">", "Approve with changes");
    assert!(edited.contains("\\u202e"), "the field holds it as JSON does");
    let [(_, command), (_, shown)] = crate::kit::tied(&wait);
    let text = |before: &str| {
        between(between(edited, before, "</label>"), ">\n", "</textarea>").replace("&#34;", "\"")
    };
    let (customer, note) = (text("name=\"arg.customer\""), text("name=\"arg.note\""));
    let fields = [
        ("command", &*command),
        ("shown", &*shown),
        ("approve", "edited"),
        ("arg.customer", &customer),
        ("arg.note", &note),
        ("arg.cents", "1"),
        ("arg.urgent", "true"),
        ("arg.speed", "normal"),
    ];
    let sent = visitor.submit(&format!("{inside}/approve"), &fields).await;
    assert!(sent.headers()["location"].to_str().unwrap().ends_with("done=approved"), "{sent:?}");
    run.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_that_is_not_understood_lists_nothing_and_its_second_page_stays_the_second() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    for number in 0..25 {
        let id = format!("asks-{number}");
        shop.engine.start::<consent>("May it?".to_owned()).id(&*id).await.unwrap();
        shop.wait_of(&id).await;
    }
    for query in ["kind=nothing", "after=there", "kind=approval&after=-1", "kind=parked&after=there"] {
        let page = visitor.page(&format!("/inbox?{query}")).await;
        assert!(page.contains("Not understood") && !page.contains("/runs/asks-"), "{query}");
    }
    for kind in ["", "kind=approval&"] {
        let first = visitor.page(&format!("/inbox?{kind}")).await;
        assert!(first.contains("/runs/asks-0\"") && !first.contains("/runs/asks-24"));
        let after = between(&first, "after=", "\"").to_owned();
        let second = visitor.page(&format!("/inbox?{kind}after={after}")).await;
        assert!(!second.contains("/runs/asks-0\"") && second.contains("/runs/asks-24"));
        let live = between(&second, "sse-connect=\"", "\"").replace("&#38;", "&");
        assert_eq!(live, format!("/live/inbox?{kind}after={after}"));
        let mut sent = visitor.get(&live).await;
        let mut text = String::new();
        while !text.contains("\n\n") {
            text.push_str(std::str::from_utf8(&sent.chunk().await.unwrap().unwrap()).unwrap());
        }
        assert!(text.contains("/runs/asks-24") && !text.contains("/runs/asks-0\""), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_read_hides_no_others() {
    use aether::encryption::{Encryption, Keys, SecretKey};
    use aether::prelude::*;
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let wait = shop.complaint("complaint-7").await;
    shop.engine.approve(&wait.run, &wait, "ada").await.unwrap();
    shop.engine.find("complaint-7").await.unwrap().end().await.unwrap();
    let keys = Keys::new("key 1", SecretKey::from([1; 32]), SecretKey::from([2; 32]));
    let file = shop.folder.path().join("shop.db");
    let codec = Encryption::new(keys);
    let other = Engine::builder().sqlite(&file).payload_codec(codec).start().await.unwrap();
    other.start::<consent>("May it?".to_owned()).id("secret").await.unwrap();
    let secret = RunId::new("secret").unwrap();
    while other.pending(&secret).await.unwrap().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let cost = visitor.page("/cost").await;
    assert!(cost.contains("1 of them cannot be read"), "{cost}");
    assert!(!between(&cost, "<b>", "</b>").is_empty() && cost.contains("</b><span>calls"));
    let inbox = visitor.page("/inbox").await;
    assert!(inbox.contains("cannot be read here") && inbox.contains("key 1"), "{inbox}");
    assert!(!inbox.contains("Nothing waits for you"));
    let refused = visitor.submit("/runs/secret/end", &[("how", "cancel"), ("reason", "of ann's")]).await;
    assert!(!refused.status().is_success() && !refused.status().is_redirection(), "{refused:?}");
    assert_eq!(shop.engine.store().unread(&secret).await.unwrap().messages, 0);
    other.shutdown().await.unwrap();
}
