//! What pages show, in a program of one's own, without script, and as people click through them.

use std::sync::atomic::Ordering;

use aether::id::RunId;
use aether_web::{Actions, Console, User};
use fantoccini::Locator;
use reqwest::StatusCode;
use reqwest::header::{HOST, LOCATION};

use crate::browser::Browser;
use crate::kit::{Shop, between};
use crate::screens::open;
use crate::stories::{booking, count_up, on_signal};

#[tokio::test(flavor = "multi_thread")]
async fn a_person_edits_and_approves_in_a_browser_and_sees_the_run_go_on() {
    let shop = Shop::open().await;
    shop.complaint("complaint-7").await;
    let visitor = shop.console().await;
    let browser = Browser::open(1440, false).await;
    let page = &browser.page;
    open(&browser, &visitor, "/inbox").await;
    // The list may be replaced while it is clicked.
    page.execute("document.querySelector(\"a[href='/runs/complaint-7']\").click()", vec![]).await.unwrap();
    page.wait()
        .for_element(Locator::XPath("//summary[text()='Edit before approving']"))
        .await
        .unwrap()
        .click()
        .await
        .unwrap();
    let cents = page.find(Locator::Css("input[name='arg.cents']")).await.unwrap();
    cents.clear().await.unwrap();
    cents.send_keys("1500").await.unwrap();
    page.find(Locator::Css("select[name='arg.speed'] option:nth-child(2)"))
        .await
        .unwrap()
        .click()
        .await
        .unwrap();
    page.find(Locator::Css("button[value='edited']")).await.unwrap().click().await.unwrap();
    let said = page.wait().for_element(Locator::Css(".flash")).await.unwrap().text().await.unwrap();
    assert_eq!(said, "Approved with your changes. The run goes on.");
    // By itself, without being loaded again.
    page.wait().for_element(Locator::Css("#head .chip.completed")).await.unwrap();
    // The timeline may be replaced while it is clicked.
    let click = "[...document.querySelectorAll('[data-row]')].find(row => row.textContent.includes('pay_back')).click()";
    let second = std::time::Duration::from_secs(1);
    loop {
        page.execute(click, vec![]).await.unwrap();
        if page.wait().at_most(second).for_element(Locator::Css(".diff .new")).await.is_ok() {
            break;
        }
    }
    let panel = page.find(Locator::Css("#panel")).await.unwrap().text().await.unwrap();
    assert!(panel.contains("\"cents\": 2090") && panel.contains("\"cents\": 1500"), "{panel}");
    assert!(
        page.current_url().await.unwrap().query().unwrap().starts_with("step="),
        "the address is that of the step"
    );
    assert_eq!(shop.paid.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_running_run_changes_by_itself_and_so_does_the_list() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = RunId::new("signals").unwrap();
    shop.engine.start::<on_signal>(2).id("signals").await.unwrap();
    shop.wait_of("signals").await;
    let (one, list) = tokio::join!(Browser::open(1440, true), Browser::open(390, false));
    open(&one, &visitor, "/runs/signals").await;
    open(&list, &visitor, "/").await;
    for number in 1..=2_u32 {
        shop.engine.signal(&run, "number", &number.to_string(), &number).await.unwrap();
        let rows = format!("#timeline [data-row]:nth-of-type({})", number * 2);
        one.page.wait().for_element(Locator::Css(&rows)).await.unwrap();
    }
    one.page.wait().for_element(Locator::Css("#head .chip.completed")).await.unwrap();
    list.page.wait().for_element(Locator::Css("#list .chip.completed")).await.unwrap();
    shop.engine.start::<booking>("1".to_owned()).id("newer").await.unwrap();
    list.page.wait().for_element(Locator::Css("#list a[href='/runs/newer']")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_works_without_script() {
    let shop = Shop::open().await;
    shop.complaint("complaint-7").await;
    let visitor = shop.console().await;
    let browser = Browser::open_with(390, false, false).await;
    let page = &browser.page;
    let settled = async |css: &'static str| page.wait().for_element(Locator::Css(css)).await.unwrap();
    open(&browser, &visitor, "/").await;
    settled("#list a.name").await.click().await.unwrap();
    settled("[data-row]").await.click().await.unwrap();
    settled("#panel .talk").await;
    for place in ["inbox", "workflows", "cost", "workers"] {
        page.find(Locator::Css(&format!("nav a[href='/{place}']"))).await.unwrap().click().await.unwrap();
        page.wait()
            .for_element(Locator::Css(&format!("nav a[href='/{place}'][aria-current]")))
            .await
            .unwrap();
    }
    settled("button[value='dark']").await.click().await.unwrap();
    settled("html[data-theme='dark'] nav a[href='/workers'][aria-current]").await;
    page.find(Locator::Css("nav a[href='/inbox']")).await.unwrap().click().await.unwrap();
    settled("button[name='approve']").await.click().await.unwrap();
    settled(".flash").await;
    shop.engine.find("complaint-7").await.unwrap().end().await.unwrap();
    assert_eq!(shop.paid.0.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_is_mounted_below_a_path_behind_the_programs_own_authentication() {
    let shop = Shop::open().await;
    shop.complaint("complaint-7").await;
    let console =
        Console::new(shop.engine.clone()).allow(Actions::ALL).host("agents.example.com").auth(|request| {
            let name = request.headers.get("x-user")?.to_str().ok()?;
            Some(User::new(name).only(Actions::SIGNAL))
        });
    let app = axum::Router::new().nest("/admin/agents", console.router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let visitor = shop.console().await;
    let get = async |path: &str, user: Option<&str>| {
        let request = visitor.client.get(format!("{url}{path}")).header(HOST, "agents.example.com");
        user.into_iter().fold(request, |request, user| request.header("x-user", user)).send().await.unwrap()
    };
    assert_eq!(get("/admin/agents", None).await.status(), StatusCode::UNAUTHORIZED);
    follow_all(&visitor.client, &url, "/admin/agents").await;
    let page = get("/admin/agents", Some("bob")).await.text().await.unwrap();
    assert!(
        page.contains("href=\"/admin/agents/inbox\"") && page.contains("/admin/agents/runs/complaint-7"),
        "{page}"
    );
    let run = get("/admin/agents/runs/complaint-7", Some("bob")).await.text().await.unwrap();
    assert!(
        !run.contains("name=\"approve\"") && run.contains("Send a signal"),
        "bob may signal, and not approve"
    );
    let token = between(&run, "name=\"form_token\" value=\"", "\"").to_owned();
    let fields = format!("form_token={token}&id=console:bob:1&name=x&value=1&as=json");
    let send = async |user: &str| {
        let request = visitor
            .client
            .post(format!("{url}/admin/agents/runs/complaint-7/signal"))
            .header(HOST, "agents.example.com");
        let request = request.header("x-user", user).header("origin", "https://agents.example.com");
        request
            .header("content-type", "application/x-www-form-urlencoded")
            .body(fields.clone())
            .send()
            .await
            .unwrap()
    };
    assert_eq!(send("eve").await.status(), StatusCode::FORBIDDEN, "the token of another user");
    let sent = send("bob").await;
    assert_eq!(sent.headers()[LOCATION], "/admin/agents/runs/complaint-7?done=signalled");
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_found_by_what_stands_in_the_address_page_by_page() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    for number in 0..60 {
        let id = format!("job-{number:02}");
        shop.engine
            .start::<count_up>(0)
            .id(&*id)
            .label("team", if number % 2 == 0 { "even" } else { "odd" })
            .await
            .unwrap()
            .result()
            .await
            .unwrap();
    }
    shop.engine.start::<booking>("1".to_owned()).id("broken").await.unwrap().end().await.unwrap();
    shop.complaint("asks").await;
    let ids = async |query: &str| -> Vec<String> {
        let page = visitor.page(&format!("/{query}")).await;
        page.split("class=\"name\" href=\"/runs/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids("?status=failed").await, ["broken"]);
    assert_eq!(ids("?why=people").await, ["asks"]);
    assert_eq!(ids("?status=open&why=doubt").await, Vec::<String>::new());
    assert_eq!(ids("?q=job-0&label=team%3Dodd").await, ["job-09", "job-07", "job-05", "job-03", "job-01"]);
    assert_eq!(ids("?workflow=booking&version=1").await, ["broken"]);
    let first = visitor.page("/?workflow=count_up").await;
    let next = between(&first, "?workflow=count_up&#38;after=", "\"").to_owned();
    let (one, two) =
        (ids("?workflow=count_up").await, ids(&format!("?workflow=count_up&after={next}")).await);
    assert_eq!((one.len(), two.len()), (50, 10));
    assert!(one.iter().all(|id| !two.contains(id)));
}

/// Follows every address of every page of a nested console.
async fn follow_all(client: &reqwest::Client, url: &str, base: &str) {
    let (mut seen, mut open) = (std::collections::BTreeSet::new(), vec![base.to_owned()]);
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let request =
            client.get(format!("{url}{path}")).header(HOST, "agents.example.com").header("x-user", "bob");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let is_page = answer.headers()["content-type"].to_str().unwrap().starts_with("text/html");
        if !is_page {
            continue;
        }
        let page = answer.text().await.unwrap();
        for name in [
            " href=\"",
            " hx-get=\"",
            " sse-connect=\"",
            " src=\"",
            "method=\"get\" action=\"",
            " data-badge=\"",
        ] {
            for found in page.split(name).skip(1) {
                let found = found.split('"').next().unwrap().replace("&#38;", "&");
                let found = found.split('#').next().unwrap().to_owned();
                if !found.is_empty() {
                    assert!(found.starts_with(base), "{found} on {path} leads out of the console");
                    open.push(found);
                }
            }
        }
    }
    for needed in ["/inbox", "/workflows", "/cost", "/workers", "?status=failed", "/runs/complaint-7/journal"]
    {
        assert!(seen.contains(&format!("{base}{needed}")), "{needed} is reached: {seen:?}");
    }
}
