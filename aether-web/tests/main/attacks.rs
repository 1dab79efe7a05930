//! What somebody would try who must not get in, or must not do what they try. None succeeds.

use std::sync::atomic::Ordering;
use std::time::Duration;

use aether::id::RunId;
use aether_web::{Actions, Options, Role, ServeError};
use reqwest::header::{COOKIE, HOST, LOCATION, ORIGIN};
use reqwest::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::browser::Browser;
use crate::kit::{Shop, Visitor, cookie, encoded, tied};
use crate::screens::open;
use crate::stories::{booking, hostile};

const FORM: &str = "application/x-www-form-urlencoded";

/// A shop with an approval that must not be given, and the form that would give it.
async fn shop_with_approval() -> (Shop, Visitor, String) {
    let shop = Shop::open().await;
    let wait = shop.complaint("complaint-7").await;
    let visitor = shop.console().await;
    let token = visitor.form_token().await;
    let tied = tied(&wait);
    let mut fields = vec![("form_token", token.as_str())];
    fields.extend(tied.iter().map(|(name, value)| (*name, value.as_str())));
    let form = encoded(&fields);
    (shop, visitor, form)
}

async fn is_untouched(shop: &Shop) -> bool {
    let waits = shop.engine.pending(&RunId::new("complaint-7").unwrap()).await.unwrap();
    waits.len() == 1 && shop.paid.0.load(Ordering::SeqCst) == 0
}

/// What a server answers to bytes, until it closes the connection.
async fn raw(visitor: &Visitor, bytes: &str) -> String {
    let mut stream = TcpStream::connect(visitor.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_of_another_site_is_refused_with_the_cookie_and_even_with_the_token() {
    let (shop, visitor, form) = shop_with_approval().await;
    let url = format!("{}/runs/complaint-7/approve", visitor.url);
    let own = visitor.url.clone();
    let attempts: [&[(&str, &str)]; 7] = [
        &[],
        &[("origin", "http://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://127.0.0.1:1")],
        &[("sec-fetch-site", "cross-site"), ("origin", &own)],
        &[("sec-fetch-site", "same-site"), ("origin", &own)],
        &[("sec-fetch-site", "none")],
    ];
    for headers in attempts {
        let mut request =
            visitor.client.post(&url).header(COOKIE, &visitor.cookie).header("content-type", FORM);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(form.clone()).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{headers:?}");
    }
    assert!(is_untouched(&shop).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_of_another_site_cannot_send_what_browsers_let_it_send_without_asking() {
    let (shop, visitor, form) = shop_with_approval().await;
    let url = format!("{}/runs/complaint-7/approve", visitor.url);
    for kind in ["text/plain", "application/json", "multipart/form-data; boundary=x"] {
        let request = visitor.client.post(&url).header(COOKIE, &visitor.cookie).header(ORIGIN, &visitor.url);
        let answer = request.header("content-type", kind).body(form.clone()).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    // From the console's own origin, and without the token of the session, or with another one.
    let wait = shop.wait_of("complaint-7").await;
    let [(_, command), (_, shown)] = tied(&wait);
    for token in ["", "0", &"a".repeat(64)] {
        let fields = [("form_token", token), ("command", &command), ("shown", &shown)];
        let answer = visitor.send("/runs/complaint-7/approve", &fields).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }
    // The token of another session.
    let other = shop.console().await;
    let token = other.form_token().await;
    let fields = [("form_token", token.as_str()), ("command", &command), ("shown", &shown)];
    assert_eq!(visitor.send("/runs/complaint-7/approve", &fields).await.status(), StatusCode::FORBIDDEN);
    // No cross-origin page reads an answer.
    let answer = visitor
        .client
        .get(&visitor.url)
        .header(COOKIE, &visitor.cookie)
        .header(ORIGIN, "http://evil.example");
    assert!(answer.send().await.unwrap().headers().get("access-control-allow-origin").is_none());
    assert!(is_untouched(&shop).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_another_site_that_points_here_is_answered_with_nothing() {
    let (shop, visitor, form) = shop_with_approval().await;
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "[::2]",
        "127.0.0.1@evil.example",
    ] {
        let get = visitor.client.get(&visitor.url).header(HOST, host).header(COOKIE, &visitor.cookie);
        let answer = get.send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{host}");
        assert!(!answer.text().await.unwrap().contains("complaint"));
        let post =
            visitor.client.post(format!("{}/runs/complaint-7/approve", visitor.url)).header(HOST, host);
        let post = post
            .header(COOKIE, &visitor.cookie)
            .header(ORIGIN, format!("http://{host}"))
            .header("content-type", FORM);
        assert_eq!(post.body(form.clone()).send().await.unwrap().status(), StatusCode::MISDIRECTED_REQUEST);
    }
    let both = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let none = "GET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    for request in [both, none] {
        assert!(raw(&visitor, request).await.starts_with("HTTP/1.1 400"), "{request}");
    }
    assert!(is_untouched(&shop).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_a_run_becomes_markup_or_script_wherever_it_stands() {
    const EVIL: &str = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>\"'><svg onload=window.pwned=1>{{7*7}}";
    let shop = Shop::open().await;
    let id = format!("run {EVIL}");
    let run = shop.engine.start::<hostile>(EVIL.to_owned()).id(&*id).label("customer", EVIL).await.unwrap();
    let wait = shop.wait_of(&id).await;
    let signal = shop.engine.signal(run.id(), EVIL, EVIL, &EVIL).await;
    signal.unwrap();
    let visitor = shop.console_with(Options::new().allow(Actions::ALL).role(Role::Audit).actor(EVIL)).await;
    let inside = format!("/runs/{}", percent(&id));
    let view = shop.engine.view(run.id()).await.unwrap();
    let steps = view.steps.iter().map(|step| format!("{inside}?step={}", percent(step.command.as_str())));
    let mut pages: Vec<String> = steps.collect();
    pages.extend(["/", "/inbox", "/workflows", "/cost", "/workers"].map(str::to_owned));
    pages.push(format!("/?q={0}&workflow={0}&label={0}&version={0}&status={0}", percent(EVIL)));
    pages.push(format!("/inbox?kind={}", percent(EVIL)));
    pages.extend([inside.clone(), format!("{inside}/journal"), format!("{inside}/fork?before=start")]);
    let refused = shop.engine.reject(run.id(), &wait, EVIL, EVIL);
    let browser = Browser::open(1440, false).await;
    for page in &pages {
        let text = visitor.page(page).await;
        assert!(
            !text.contains("<img src=x") && !text.contains("<svg onload") && !text.contains("<script>"),
            "{page}"
        );
    }
    for page in &pages {
        open(&browser, &visitor, page).await;
        let pwned = browser
            .page
            .execute("return window.pwned === undefined && document.querySelector('#main') !== null", vec![])
            .await;
        assert_eq!(pwned.unwrap(), serde_json::Value::Bool(true), "{page}");
    }
    refused.await.unwrap();
    run.end().await.unwrap();
    let ended = visitor.page(&inside).await;
    assert!(!ended.contains("<img src=x") && !ended.contains("<svg onload"));
    // An error page repeats what was asked for.
    let missing = visitor.get(&format!("{inside}?step={}", percent(EVIL))).await;
    assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    assert!(!missing.text().await.unwrap().contains("<img src=x"));
}

fn percent(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_is_told_to_nobody() {
    let shop = Shop::open().await;
    let server = aether_web::bind(shop.engine.clone(), Options::new()).await.unwrap();
    let url = server.url().to_owned();
    let serving = tokio::spawn(server.run());
    let browser = Browser::open(1440, false).await;
    browser.page.goto(&url).await.unwrap();
    browser.page.wait().for_element(fantoccini::Locator::Css("#list")).await.unwrap();
    let at = browser.page.current_url().await.unwrap();
    assert_eq!((at.path(), at.query()), ("/", None), "the token is in no address");
    let referrer = browser.page.execute("return document.referrer", vec![]).await.unwrap();
    assert!(!referrer.as_str().unwrap().contains("token"), "{referrer}");
    let back = browser.page.execute("return document.cookie", vec![]).await.unwrap();
    assert_eq!(back, serde_json::Value::String(String::new()), "no script reads the cookie");
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_do_nothing_whatever_headers_say() {
    let (shop, visitor, form) = shop_with_approval().await;
    let url = format!("{}/runs/complaint-7/approve", visitor.url);
    for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "APPROVE"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request =
            visitor.client.request(method.clone(), format!("{url}?{form}")).header(COOKIE, &visitor.cookie);
        let request = request
            .header(ORIGIN, &visitor.url)
            .header("x-http-method-override", "POST")
            .header("x-method", "POST");
        assert_eq!(request.send().await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    // A form to another page is not one to this page, and the fields of the address are not those of the form.
    let answer = visitor.send(&format!("/runs/complaint-7?{form}"), &[("_method", "approve")]).await;
    assert_eq!(answer.status(), StatusCode::METHOD_NOT_ALLOWED);
    let answer = visitor.send(&format!("/runs/complaint-7/approve?{form}"), &[]).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert!(is_untouched(&shop).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_to_a_file() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let paths = [
        "/assets/../Cargo.toml",
        "/assets/..%2fCargo.toml",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%5c..%5cx",
        "/assets//etc/passwd",
        "/assets/%00",
        "/assets/console.css%00.js",
        "/../../etc/passwd",
        "/runs/../../etc/passwd",
        "/assets/....//x",
        "//etc/passwd",
    ];
    for path in paths {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            visitor.cookie
        );
        let answer = raw(&visitor, &request).await;
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(["400", "404"].contains(&status), "{path}: {answer}");
        assert!(!answer.contains("[package]") && !answer.contains("root:"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_without_end_is_cut_off() {
    let (shop, visitor, form) = shop_with_approval().await;
    let url = format!("{}/runs/complaint-7/approve", visitor.url);
    let big = format!("{form}&note={}", "a".repeat(2 * 1024 * 1024));
    let post = || {
        visitor
            .client
            .post(&url)
            .header(COOKIE, &visitor.cookie)
            .header(ORIGIN, &visitor.url)
            .header("content-type", FORM)
    };
    if let Ok(answer) = post().body(big).send().await {
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    // Without a length, in pieces.
    let head = format!(
        "POST /runs/complaint-7/approve HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nCookie: {}\r\nContent-Type: {FORM}\r\nTransfer-Encoding: chunked\r\n\r\n",
        visitor.cookie
    );
    let mut stream = TcpStream::connect(visitor.url.trim_start_matches("http://")).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let piece = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    let mut sent = 0;
    while sent < 64 && stream.write_all(piece.as_bytes()).await.is_ok() {
        sent += 1;
    }
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer).await;
    assert!(
        answer.is_empty() || String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 413"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
    assert!(is_untouched(&shop).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_client_is_cut_off_and_others_are_served() {
    let shop = Shop::open().await;
    let options = Options::new().allow(Actions::ALL).role(Role::Audit).patience(Duration::from_millis(200));
    let visitor = shop.console_with(options).await;
    let mut slow = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(visitor.url.trim_start_matches("http://")).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
        slow.push(stream);
    }
    visitor.page("/").await;
    for mut stream in slow {
        // It ends by itself: this test would never end otherwise.
        let _closed = stream.read_to_end(&mut Vec::new()).await;
    }
    visitor.page("/").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_of_something_else_than_what_was_shown_is_refused() {
    let (shop, visitor, _form) = shop_with_approval().await;
    let other = shop.complaint("complaint-8").await;
    let wait = shop.wait_of("complaint-7").await;
    let [(_, command), (_, shown)] = tied(&wait);
    let [_, (_, foreign)] = tied(&other);
    let mut turned = shown.clone();
    turned.replace_range(0..1, if turned.starts_with('0') { "1" } else { "0" });
    for (command, shown) in [
        (command.as_str(), foreign.as_str()),
        (&command, &turned),
        (&command, ""),
        (&command, &shown.to_uppercase()),
        ("0:other", &shown),
        ("", &shown),
    ] {
        let fields = [("command", command), ("shown", shown), ("arg.cents", "999999")];
        let answer = visitor.submit("/runs/complaint-7/approve", &fields).await;
        assert!(
            [StatusCode::CONFLICT, StatusCode::BAD_REQUEST].contains(&answer.status()),
            "{command} {shown}"
        );
        let answer = visitor
            .submit("/runs/complaint-7/reject", &[("command", command), ("shown", shown), ("reason", "no")])
            .await;
        assert!(
            [StatusCode::CONFLICT, StatusCode::BAD_REQUEST].contains(&answer.status()),
            "{command} {shown}"
        );
    }
    assert!(is_untouched(&shop).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_once_and_a_guessed_one_never() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let used = visitor.opened_by.split_once("token=").unwrap().1;
    for token in [used, "", "0", &"f".repeat(64)] {
        let answer = visitor.send("/login", &[("token", token)]).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
        assert!(answer.headers().get("set-cookie").is_none());
    }
    // Looking at the address uses nothing up.
    let server = aether_web::bind(shop.engine.clone(), Options::new()).await.unwrap();
    let (url, base) = (server.url().to_owned(), format!("http://{}", server.address()));
    let serving = tokio::spawn(server.run());
    for _ in 0..3 {
        assert_eq!(visitor.client.get(&url).send().await.unwrap().status(), StatusCode::OK);
    }
    let token = url.split_once("token=").unwrap().1;
    let login =
        visitor.client.post(format!("{base}/login")).header(ORIGIN, &base).header("content-type", FORM);
    assert_eq!(login.body(format!("token={token}")).send().await.unwrap().status(), StatusCode::SEE_OTHER);
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_somebody_else_chose_is_not_taken_over() {
    let shop = Shop::open().await;
    let server = aether_web::bind(shop.engine.clone(), Options::new()).await.unwrap();
    let (token, base) =
        (server.url().split_once("token=").unwrap().1.to_owned(), format!("http://{}", server.address()));
    let server_token = server.token();
    let serving = tokio::spawn(server.run());
    let visitor = shop.console().await;
    // Its name is no secret: the console tells it to everybody who signs in.
    let more = server_token.unwrap();
    let first =
        visitor.client.post(format!("{base}/login")).header(ORIGIN, &base).header("content-type", FORM);
    let first = first.body(format!("token={more}")).send().await.unwrap();
    let name = cookie(first.headers()).split_once('=').unwrap().0.to_owned();
    let chosen = format!("{name}={}", "a".repeat(64));
    let login = visitor
        .client
        .post(format!("{base}/login"))
        .header(ORIGIN, &base)
        .header("content-type", FORM)
        .header(COOKIE, &chosen);
    let answer = login.body(format!("token={token}")).send().await.unwrap();
    let set = answer.headers().get("set-cookie").unwrap().to_str().unwrap().to_owned();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains("Path=/"), "{set}");
    assert_ne!(cookie(answer.headers()), chosen);
    let with = |cookie: String| visitor.client.get(format!("{base}/")).header(COOKIE, cookie).send();
    assert_eq!(with(chosen).await.unwrap().status(), StatusCode::SEE_OTHER, "the chosen one opens nothing");
    assert_eq!(with(cookie(answer.headers())).await.unwrap().status(), StatusCode::OK);
    // A session ends when it is closed.
    let token = visitor.form_token().await;
    visitor.send("/logout", &[("form_token", &token)]).await;
    assert_eq!(visitor.get("/").await.status(), StatusCode::SEE_OTHER);
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_page_stands_in_a_frame_and_none_loads_or_runs_what_is_not_its_own() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    for path in [
        "/",
        "/inbox",
        "/login",
        "/assets/console.js",
        "/runs/nobody",
        "/nothing",
        "/live/runs?after=x",
        "/theme",
    ] {
        let answer = visitor.get(path).await;
        let header =
            |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
        let policy = header("content-security-policy");
        assert!(
            policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'self'"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header("x-frame-options"), "DENY", "{path}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(header("referrer-policy"), "strict-origin", "{path}");
    }
    let page = visitor.page("/").await;
    assert!(!page.contains(" style=") && !page.contains("<style") && !page.contains(" onclick="));
    assert!(!page.contains("//cdn") && !page.contains("https://"));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_elsewhere() {
    let (_shop, visitor, _form) = shop_with_approval().await;
    for at in
        ["//evil.example", "https://evil.example/", "/\\evil.example", "/%2e%2e/x", "javascript:alert(1)"]
    {
        let answer = visitor.submit("/theme", &[("theme", "dark"), ("at", at)]).await;
        assert_eq!(answer.headers()[LOCATION], "/", "{at}");
    }
    let wait = _shop.wait_of("complaint-7").await;
    let [(_, command), (_, shown)] = tied(&wait);
    let fields = [
        ("command", &*command),
        ("shown", &shown),
        ("reason", "no"),
        ("from", "//evil.example"),
        ("return", "//evil.example"),
    ];
    let answer = visitor.submit("/runs/complaint-7/reject", &fields).await;
    assert_eq!(answer.headers()[LOCATION], "/runs/complaint-7?done=rejected");
    // Without a session, to the form to sign in, whatever was asked for.
    let answer =
        visitor.client.get(format!("{}/inbox?next=//evil.example", visitor.url)).send().await.unwrap();
    assert_eq!(
        (answer.status(), &answer.headers()[LOCATION]),
        (StatusCode::SEE_OTHER, &"/login".parse().unwrap())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_id_becomes_a_header() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let id = "a\"; filename=\"evil.html\u{85}x".replace('\u{85}', "ä;");
    shop.engine.start::<booking>("1".to_owned()).id(&*id).await.unwrap().end().await.unwrap();
    let answer = visitor.get(&format!("/runs/{}/fixture.json", percent(&id))).await;
    let named = answer.headers()["content-disposition"].to_str().unwrap();
    assert!(named.starts_with("attachment; filename=\"a") && named.matches('"').count() == 2, "{named}");
    for id in ["a%0d%0aSet-Cookie:%20x=1", "a%0aLocation:%20//evil.example", "%00"] {
        let answer = visitor.get(&format!("/runs/{id}/fixture.json")).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
        assert!(answer.headers().get("set-cookie").is_none() && answer.headers().get("location").is_none());
        let answer = visitor.submit(&format!("/runs/{id}/end"), &[("how", "cancel"), ("reason", "x")]).await;
        assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    }
    let answer = visitor
        .submit("/theme", &[("theme", "dark\r\nSet-Cookie: x=1"), ("at", "/\r\nSet-Cookie: x=1")])
        .await;
    assert_eq!(answer.headers().get_all("set-cookie").iter().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_allowed_that_was_not_named_and_keys_and_prompts_are_for_auditors() {
    let shop = Shop::open().await;
    let wait = shop.complaint("complaint-7").await;
    let [(_, command), (_, shown)] = tied(&wait);
    let visitor = shop.console_with(Options::new()).await;
    let fields = [
        ("command", &*command),
        ("shown", &*shown),
        ("reason", "x"),
        ("how", "cancel"),
        ("name", "x"),
        ("before", "start"),
    ];
    for action in ["approve", "reject", "answer", "resolve", "confirm", "signal", "end", "fork"] {
        let answer = visitor.submit(&format!("/runs/complaint-7/{action}"), &fields).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{action}");
    }
    assert_eq!(visitor.get("/runs/complaint-7/fork").await.status(), StatusCode::FORBIDDEN);
    assert_eq!(visitor.get("/runs/complaint-7/fixture.json").await.status(), StatusCode::FORBIDDEN);
    assert!(is_untouched(&shop).await);
    // Somebody decides elsewhere, so that there is a key.
    shop.engine.approve(&wait.run, &wait, "ada").await.unwrap();
    let run = shop.engine.find("complaint-7").await.unwrap();
    run.end().await.unwrap();
    let view = shop.engine.view(run.id()).await.unwrap();
    let key = view.executions.iter().find_map(|execution| execution.key.clone()).unwrap().to_string();
    let auditor = shop.console().await;
    let (mut told, mut hidden) = (String::new(), String::new());
    let steps =
        view.steps.iter().map(|step| format!("/runs/complaint-7?step={}", percent(step.command.as_str())));
    for page in steps.chain(["/runs/complaint-7".into(), "/runs/complaint-7/journal".into()]) {
        hidden.push_str(&visitor.page(&page).await);
        told.push_str(&auditor.page(&page).await);
    }
    for secret in ["SECRET-HOUSE-RULES", &key] {
        assert!(told.contains(secret), "an auditor sees {secret}");
        assert!(!hidden.contains(secret), "others do not see {secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_for_other_machines_needs_somebody_who_says_who_they_are() {
    let shop = Shop::open().await;
    let open = Options::new().bind(([0, 0, 0, 0], 0));
    let refused = aether_web::bind(shop.engine.clone(), open.clone()).await.unwrap_err();
    assert!(matches!(refused, ServeError::NeedsAuth { .. }), "{refused}");
    let nobody = open.auth(|_| None).host("agents.example.com");
    let server = aether_web::bind(shop.engine.clone(), nobody).await.unwrap();
    assert!(!server.url().contains("token"));
}
