//! Building a console: what is allowed, who may look, and the router.

use std::collections::HashMap;
use std::sync::Arc;

use aether_core::engine::Engine;
use aether_core::step::Tool;
use aether_effects::llm::PriceTable;
use axum::Router;
use axum::http::request::Parts;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::access::guard::guard;
use crate::access::sessions::{NoRandomness, Sessions};
use crate::access::settings::{Settings, Shared};
use crate::pages::{actions, cost, fork, inbox, journal, login, run, runs, workers, workflows};
use crate::permissions::{Actions, Role, User};
use crate::{assets, live};

/// The console of `engine` as a router, to nest anywhere in a program of your own. It is read-only, answers under the names
/// `localhost`, `127.0.0.1` and `[::1]`, and asks for a token that is written to the log, as an event of `tracing`.
/// [`Console`] has the choices.
///
/// ```no_run
/// # async fn example(engine: aether_core::engine::Engine) -> Result<(), Box<dyn std::error::Error>> {
/// let app = axum::Router::new().nest("/agents", aether_web::console(engine));
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
/// axum::serve(listener, app).await?;
/// # Ok(()) }
/// ```
pub fn console(engine: Engine) -> Router {
    let say = |token: &str| {
        tracing::info!("the console opens once at /login?token={token}, below the path where it is nested");
    };
    let console = Console::new(engine).announce(say);
    match console.token() {
        Ok(token) => say(&token),
        Err(error) => tracing::error!(%error, "nobody can open the console"),
    }
    console.router()
}

/// A console, before it is a router.
///
/// ```no_run
/// use aether_web::{Actions, Console, User};
/// # fn example(engine: aether_core::engine::Engine) -> axum::Router {
/// let console = Console::new(engine)
///     .allow(Actions::DECIDE | Actions::END)
///     .host("agents.example.com")
///     // A middleware of yours has put the user there.
///     .auth(|request| request.extensions.get::<User>().cloned());
/// axum::Router::new().nest("/agents", console.router())
/// # }
/// ```
#[must_use = "a console does nothing before it is a router"]
#[derive(Debug)]
pub struct Console {
    settings: Settings,
    sessions: Arc<Sessions>,
}

impl Console {
    /// Of `engine`, which may be a client. Read-only, for people, on loopback names, with a token that works once.
    pub fn new(engine: Engine) -> Self {
        let settings = Settings {
            engine,
            allowed: Actions::NONE,
            hosts: ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into(),
            auth: None,
            actor: "operator".to_owned(),
            role: Role::People,
            prices: None,
            schemas: HashMap::new(),
            base: None,
            secure: false,
            announce: None,
        };
        Self { settings, sessions: Arc::new(Sessions::new()) }
    }

    /// Allows these actions too.
    pub fn allow(mut self, actions: Actions) -> Self {
        self.settings.allowed = self.settings.allowed | actions;
        self
    }

    /// Answers also under this name, which stands in the address without a port. Requests under any other name are
    /// refused: that is what stops a page of another site that has its name point here.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.settings.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Asks the program who makes a request, in place of a token: `None` is answered with status 401. It is asked for every
    /// request, also those for styles and scripts, and is called from code that serves others too: it must not block.
    pub fn auth(mut self, who: impl Fn(&Parts) -> Option<User> + Send + Sync + 'static) -> Self {
        self.settings.auth = Some(Arc::new(who));
        self
    }

    /// How whoever opens the console by a token is called, as the actor of what they do. Default `operator`.
    pub fn actor(mut self, name: impl Into<String>) -> Self {
        self.settings.actor = name.into();
        self
    }

    /// What whoever opens the console by a token sees. Default [`Role::People`].
    pub fn role(mut self, role: Role) -> Self {
        self.settings.role = role;
        self
    }

    /// Prices for answers of models that hold no cost themselves.
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.settings.prices = Some(prices);
        self
    }

    /// Has the form with which a call of this step is edited before it is approved follow the JSON Schema of its arguments:
    /// `.tool(send_email::tool())`. Without it the schema is used that a model was told, or else the shape of the arguments.
    pub fn tool(mut self, tool: Tool) -> Self {
        self.settings.schemas.insert(tool.name().to_owned(), tool.schema);
        self
    }

    /// The path below which the console is reached, such as `/agents`: where a proxy takes it away before the request comes
    /// here. Where the router is nested, that is known without it.
    pub fn base_path(mut self, path: &str) -> Self {
        let path = path.trim_matches('/');
        self.settings.base = Some(if path.is_empty() { String::new() } else { format!("/{path}") });
        self
    }

    /// Marks cookies `Secure`: for a console that is reached over HTTPS alone.
    pub fn secure_cookies(mut self) -> Self {
        self.settings.secure = true;
        self
    }

    /// Calls `say` with another token, for `/login?token=..`, when somebody asks to sign in and no token is left that was not
    /// used: their session has ended, or they have another browser. Tell it to those alone who may open the console.
    pub fn announce(mut self, say: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.settings.announce = Some(Arc::new(say));
        self
    }

    /// A token that opens one session, at `/login?token=..` below the path where the console is nested.
    ///
    /// # Errors
    /// [`NoRandomness`] where the system has none.
    pub fn token(&self) -> Result<String, NoRandomness> {
        self.sessions.mint()
    }

    /// What makes tokens for this console.
    pub(crate) fn sessions(&self) -> Arc<Sessions> {
        Arc::clone(&self.sessions)
    }

    /// Whether the program says who makes a request.
    pub(crate) fn has_auth(&self) -> bool {
        self.settings.auth.is_some()
    }

    /// The router.
    pub fn router(self) -> Router {
        let shared = Arc::new(Shared::new(self.settings, self.sessions));
        Router::new()
            .route("/", get(runs::page))
            .route("/runs/{run}", get(run::page))
            .route("/runs/{run}/journal", get(journal::page))
            .route("/runs/{run}/live", get(live::run))
            .route("/runs/{run}/fixture.json", get(actions::fixture))
            .route("/runs/{run}/difference", get(fork::difference))
            .route("/runs/{run}/fork", get(fork::page).post(fork::start))
            .route("/runs/{run}/approve", post(actions::approve))
            .route("/runs/{run}/reject", post(actions::reject))
            .route("/runs/{run}/answer", post(actions::answer))
            .route("/runs/{run}/resolve", post(actions::resolve))
            .route("/runs/{run}/confirm", post(actions::confirm))
            .route("/runs/{run}/signal", post(actions::signal))
            .route("/runs/{run}/end", post(actions::end))
            .route("/inbox", get(inbox::page))
            .route("/workflows", get(workflows::page))
            .route("/cost", get(cost::page))
            .route("/workers", get(workers::page))
            .route("/live/runs", get(live::list_of_runs))
            .route("/live/inbox", get(live::list_of_waits))
            .route("/live/badge", get(inbox::badge))
            .route("/login", get(login::page).post(login::login))
            .route("/logout", post(login::logout))
            .route("/theme", post(login::theme))
            .route("/assets/{file}", get(assets::file))
            .fallback(|| async { (axum::http::StatusCode::NOT_FOUND, "there is no such page\n") })
            .layer(from_fn_with_state(Arc::clone(&shared), guard))
            .with_state(shared)
    }
}
