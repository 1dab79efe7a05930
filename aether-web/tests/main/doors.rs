//! Who gets in and stays in: connections, tokens, cookies, and the end of a session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aether::id::RunId;
use aether_web::{Console, Options, User};
use futures_util::StreamExt as _;
use reqwest::header::{COOKIE, LOCATION};
use reqwest::{Response, StatusCode};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::mpsc::unbounded_channel;

use crate::kit::{Shop, Visitor};
use crate::stories::on_signal;

/// Asks for a file again and again and takes no byte of the answers, until nothing more can be sent.
async fn pipeline(visitor: &Visitor) -> TcpStream {
    let mut stream = TcpStream::connect(visitor.url.trim_start_matches("http://")).await.unwrap();
    let asked = "GET /assets/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(64);
    let short = Duration::from_millis(20);
    while let Ok(Ok(())) = tokio::time::timeout(short, stream.write_all(asked.as_bytes())).await {}
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_ask_and_never_read_keep_nobody_out() {
    let shop = Shop::open().await;
    let visitor = shop.console_with(Options::new().patience(Duration::from_secs(3_600))).await;
    // Eight live pages of somebody who was let in.
    let run = RunId::new("signals").unwrap();
    shop.engine.start::<on_signal>(1).id("signals").await.unwrap();
    shop.wait_of("signals").await;
    let mut live = Vec::new();
    for _ in 0..8 {
        live.push(visitor.get("/runs/signals/live").await);
    }
    let mut stuck = Vec::new();
    for _ in 0..300 {
        let stream = TcpStream::connect(visitor.url.trim_start_matches("http://")).await.unwrap();
        stuck.push(stream);
    }
    for stream in &mut stuck {
        let asked = "GET /assets/htmx.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
        // Those that have made room for others take nothing more.
        let _sent = tokio::time::timeout(Duration::from_millis(5), stream.write_all(asked.as_bytes())).await;
    }
    let served = async {
        for _ in 0..5 {
            let page = visitor.client.get(format!("{}/workers", visitor.url)).header(COOKIE, &visitor.cookie);
            assert_eq!(page.header("connection", "close").send().await.unwrap().status(), StatusCode::OK);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("the console answers");
    shop.engine.signal(&run, "number", "1", &1_u32).await.unwrap();
    for page in live {
        let mut pieces = page.bytes_stream();
        let mut text = String::new();
        while !text.contains("run_completed") {
            text.push_str(
                std::str::from_utf8(&pieces.next().await.expect("it stays open").unwrap()).unwrap(),
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_cut_off() {
    let shop = Shop::open().await;
    let visitor = shop.console_with(Options::new().patience(Duration::from_millis(200))).await;
    let stream = pipeline(&visitor).await;
    // Without an end of the connection, this test has none.
    while stream.take_error().unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_consoles_of_one_host_keep_their_sessions_apart() {
    let shop = Shop::open().await;
    let (one, other) = (shop.console().await, shop.console().await);
    // A browser keeps the cookies of a host together, whatever the port is.
    let name = |cookie: &str| cookie.split_once('=').unwrap().0.to_owned();
    assert_ne!(name(&one.cookie), name(&other.cookie));
    let both = format!("{}; {}", one.cookie, other.cookie);
    for visitor in [&one, &other] {
        let page = visitor.client.get(format!("{}/workers", visitor.url)).header(COOKIE, &both);
        assert_eq!(page.send().await.unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_lost_their_session_gets_in_again() {
    let shop = Shop::open().await;
    let (said, mut told) = unbounded_channel();
    let options = Options::new().announce(move |url| said.send(url.to_owned()).unwrap());
    let visitor = shop.console_with(options).await;
    assert!(told.try_recv().is_err(), "nobody needs another one yet");
    let signed_out =
        async |path: &str| visitor.client.get(format!("{}{path}", visitor.url)).send().await.unwrap();
    assert_eq!(signed_out("/").await.headers()[LOCATION], "/login");
    assert_eq!(signed_out("/login").await.status(), StatusCode::OK);
    let url = told.try_recv().unwrap();
    assert!(url.starts_with(&format!("{}/login?token=", visitor.url)), "{url}");
    for _ in 0..3 {
        signed_out("/login").await;
    }
    assert!(told.try_recv().is_err(), "one is left that nobody has used");
    let token = url.split_once("token=").unwrap().1;
    assert_eq!(visitor.send("/login", &[("token", token)]).await.status(), StatusCode::SEE_OTHER);
    visitor.page("/").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_could_not_be_told_locks_nobody_out() {
    let shop = Shop::open().await;
    let (said, mut told) = unbounded_channel();
    let is_broken = AtomicBool::new(true);
    let options = Options::new().announce(move |url| {
        assert!(!is_broken.swap(false, Ordering::SeqCst), "failed printing to stdout: Broken pipe");
        said.send(url.to_owned()).unwrap();
    });
    let visitor = shop.console_with(options).await;
    for _ in 0..2 {
        let login = visitor.client.get(format!("{}/login", visitor.url)).send().await.unwrap();
        assert_eq!(login.status(), StatusCode::OK);
    }
    let url = told.try_recv().unwrap();
    assert!(told.try_recv().is_err(), "only one is told");
    let token = url.split_once("token=").unwrap().1;
    assert_eq!(visitor.send("/login", &[("token", token)]).await.status(), StatusCode::SEE_OTHER);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_may_take_for_ever() {
    let shop = Shop::open().await;
    let visitor = shop.console_with(Options::new().patience(Duration::MAX)).await;
    visitor.page("/").await;
}

/// Whether a stream ends, and what it sends until then.
async fn rest(answer: Response) -> String {
    let mut pieces = answer.bytes_stream();
    let mut text = String::new();
    while let Some(Ok(piece)) = pieces.next().await {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pages_end_with_the_session() {
    let shop = Shop::open().await;
    let visitor = shop.console().await;
    let run = RunId::new("signals").unwrap();
    shop.engine.start::<on_signal>(1).id("signals").await.unwrap();
    shop.wait_of("signals").await;
    assert!(visitor.page("/").await.contains("action=\"/logout\""), "every page has a way out");
    let position = shop.engine.store().run(&run).await.unwrap().unwrap().next;
    let page = visitor.get(&format!("/runs/signals/live?after={position}")).await;
    let (list, inbox) = (visitor.get("/live/runs").await, visitor.get("/live/inbox").await);
    let token = visitor.form_token().await;
    visitor.send("/logout", &[("form_token", &token)]).await;
    shop.engine.signal(&run, "number", "1", &1_u32).await.unwrap();
    let (page, list, inbox) = tokio::join!(rest(page), rest(list), rest(inbox));
    assert!(!page.contains("event: entry"), "{page}");
    assert!(!list.contains("completed") && !inbox.contains("completed"), "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn live_pages_end_when_the_program_lets_somebody_in_no_more() {
    let shop = Shop::open().await;
    let is_in = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_in);
    let console = Console::new(shop.engine.clone())
        .auth(move |_| asked.load(Ordering::SeqCst).then(|| User::new("bob")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, console.router()).await.unwrap() });
    let visitor = shop.console().await;
    let live = visitor.client.get(format!("{url}/live/runs")).send().await.unwrap();
    assert_eq!(live.status(), StatusCode::OK);
    is_in.store(false, Ordering::SeqCst);
    // Without an end, this test has none.
    rest(live).await;
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_program_says_who_asks_no_token_is_told() {
    let shop = Shop::open().await;
    let (said, mut told) = unbounded_channel();
    let console = Console::new(shop.engine.clone())
        .auth(|_| None)
        .announce(move |token| said.send(token.to_owned()).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, console.router()).await.unwrap() });
    let visitor = shop.console().await;
    for path in ["/login", "/"] {
        visitor.client.get(format!("{url}{path}")).send().await.unwrap();
    }
    assert!(told.try_recv().is_err(), "it would open nothing");
    serving.abort();
}
