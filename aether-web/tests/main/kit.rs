//! A console on an engine, and a client that has signed in.

use std::sync::Arc;
use std::time::Duration;

use aether::id::RunId;
use aether::llm::{Models, Price, PriceTable};
use aether::people::{Pending, Waiting};
use aether::prelude::*;
use aether_web::{Actions, Options, Role, Server};
use reqwest::header::{COOKIE, HeaderMap, ORIGIN, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use tempfile::TempDir;

use crate::stories::{Paid, Script};

/// An engine with its file.
pub(crate) struct Shop {
    pub(crate) engine: Engine,
    pub(crate) paid: Arc<Paid>,
    pub(crate) folder: TempDir,
}

impl Shop {
    pub(crate) async fn open() -> Self {
        Self::open_in(tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn open_in(folder: TempDir) -> Self {
        let paid = Arc::new(Paid::default());
        let prices = PriceTable::new("USD", aether::jiff::civil::date(2026, 11, 1))
            .model("small-1", Price::per_million(250_000, 2_000_000));
        let engine = Engine::builder()
            .sqlite(folder.path().join("shop.db"))
            .provide(Arc::clone(&paid))
            .provide(Models::new(Script).prices(prices))
            .start()
            .await
            .unwrap();
        Self { engine, paid, folder }
    }

    /// A console that may do everything and shows everything, and a client that has signed in.
    pub(crate) async fn console(&self) -> Visitor {
        self.console_with(Options::new().allow(Actions::ALL).role(Role::Audit).actor("ada")).await
    }

    pub(crate) async fn console_with(&self, options: Options) -> Visitor {
        let server = aether_web::bind(self.engine.clone(), options).await.unwrap();
        Visitor::sign_in(server).await
    }

    /// The wait of a run, once it is there.
    pub(crate) async fn wait_of(&self, run: &str) -> Pending {
        let run = RunId::new(run).unwrap();
        // Before another attempt a run waits as well, for a moment.
        let is_wanted = |wait: &Pending| wait.waiting != Waiting::Retry;
        loop {
            if let Some(wait) = self.engine.pending(&run).await.unwrap().into_iter().find(is_wanted) {
                return wait;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts a complaint and returns the approval that it waits for.
    pub(crate) async fn complaint(&self, id: &str) -> Pending {
        let text = "The second lamp of order-7 is broken.".to_owned();
        self.engine.start::<crate::stories::complaint>(text).id(id).label("customer", "ann").await.unwrap();
        self.wait_of(id).await
    }
}

/// A client of a console.
pub(crate) struct Visitor {
    pub(crate) client: Client,
    /// Without an end slash.
    pub(crate) url: String,
    /// The address with the token that was used up.
    pub(crate) opened_by: String,
    pub(crate) cookie: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Visitor {
    async fn sign_in(server: Server) -> Self {
        let url = format!("http://{}", server.address());
        let opened_by = server.url().to_owned();
        let serving = tokio::spawn(async move { server.run().await.unwrap() });
        // There is no TLS here, and a client asks for a provider all the same.
        let _had_one = rustls::crypto::ring::default_provider().install_default();
        // A connection that is kept may be closed by the server in the moment in which it is used again.
        let client = Client::builder().redirect(Policy::none()).pool_max_idle_per_host(0).build().unwrap();
        let token = opened_by.split_once("token=").unwrap().1.to_owned();
        let mut visitor = Self { client, url, opened_by, cookie: String::new(), serving };
        let opened = visitor.send("/login", &[("token", &token)]).await;
        assert_eq!(opened.status(), StatusCode::SEE_OTHER);
        visitor.cookie = cookie(opened.headers());
        visitor
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.client.get(format!("{}{path}", self.url)).header(COOKIE, &self.cookie).send().await.unwrap()
    }

    /// A page, which must be there.
    pub(crate) async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        let status = answer.status();
        let text = answer.text().await.unwrap();
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        text
    }

    /// Sends a form as a page of the console does.
    pub(crate) async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let request = self.client.post(format!("{}{path}", self.url)).header(COOKIE, &self.cookie);
        let request =
            request.header(ORIGIN, &self.url).header("content-type", "application/x-www-form-urlencoded");
        request.body(encoded(fields)).send().await.unwrap()
    }

    /// The same, with the token that stands on the page.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let token = self.form_token().await;
        let fields = [&[("form_token", token.as_str())], fields].concat();
        self.send(path, &fields).await
    }

    pub(crate) async fn form_token(&self) -> String {
        let page = self.page("/workers").await;
        between(&page, "name=\"form_token\" value=\"", "\"").to_owned()
    }
}

pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(fields);
    text.finish()
}

/// What stands between two texts.
pub(crate) fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}")).1;
    rest.split_once(after).unwrap().0
}

/// The first cookie that an answer sets, as it is sent back.
pub(crate) fn cookie(headers: &HeaderMap) -> String {
    let set = headers.get(SET_COOKIE).unwrap().to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

/// What ties a form to its wait.
pub(crate) fn tied(wait: &Pending) -> [(&'static str, String); 2] {
    [("command", wait.command.to_string()), ("shown", wait.shown())]
}
