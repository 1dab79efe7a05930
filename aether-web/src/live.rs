//! Pages that change by themselves, as server-sent events.
//!
//! Promise: the journal is the feed. The id of an event of a run is its position, so whoever comes back with the last one
//! gets every event behind it and none twice, also after this process was restarted. At most four times in a second
//! something is sent, and before each look it is checked that who asked is still let in.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use aether_core::id::{Position, RunId};
use aether_core::run::Observed;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;

use crate::access::refusal::Refusal;
use crate::pages::journal::entries;
use crate::pages::shell::{Answer, Ask};
use crate::pages::{inbox, runs};
use crate::text::markup::rendered;

/// The shortest time between two updates.
const PACE: Duration = Duration::from_millis(250);
/// How long a change may stay unseen that another process made.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two comments that keep a connection open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events that are read at a time.
const PAGE: u64 = 200;

/// The last id that a client got: the header of an `EventSource` that comes back, or the query of a new one.
fn last<'a>(ask: &'a Ask, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    header.or_else(|| ask.get("last"))
}

fn permit(ask: &Ask) -> Result<OwnedSemaphorePermit, Response> {
    std::sync::Arc::clone(&ask.shared.live).try_acquire_owned().map_err(|_| {
        Refusal::plain(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many pages are live; this one can be loaded again",
        )
    })
}

/// The events of a run behind the last position that the client has.
pub(crate) async fn run(ask: Ask, Path(id): Path<String>, headers: HeaderMap) -> Answer {
    let run = ask.run(&id)?;
    let record = ask.shared.engine().store().run(&run).await.map_err(|error| ask.store(&error))?;
    if record.is_none() {
        return Err(Refusal::plain(StatusCode::NOT_FOUND, "there is no such run"));
    }
    let number = |text: Option<&str>| text.map(|text| text.trim().parse::<Position>());
    let next = match (number(last(&ask, &headers)), number(ask.get("after"))) {
        (Some(Ok(last)), _) => last.saturating_add(1),
        // The page holds all events before this one.
        (None, Some(Ok(next))) => next,
        (None, None) => 0,
        _ => return Err(Refusal::plain(StatusCode::BAD_REQUEST, "the id of the last event is a position")),
    };
    let permit = permit(&ask)?;
    let feed = Feed {
        watch: ask.shared.engine().watch(),
        run,
        next,
        ready: VecDeque::new(),
        sent: None,
        _permit: permit,
        ask,
    };
    let events = unfold(Some(feed), |feed| async {
        let mut feed = feed?;
        let event = feed.next().await?;
        Some((Ok::<_, Infallible>(event), Some(feed)))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

struct Feed {
    ask: Ask,
    run: RunId,
    next: Position,
    ready: VecDeque<Event>,
    /// When something was sent last.
    sent: Option<Instant>,
    watch: Receiver<Observed>,
    _permit: OwnedSemaphorePermit,
}

impl Feed {
    /// The next event; `None` where the store failed: the client comes back with the last position that it has.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if let Some(sent) = self.sent.take() {
                tokio::time::sleep_until(sent + PACE).await;
            }
            // Whoever has signed out since gets nothing more.
            if !self.ask.is_still_let_in() {
                return None;
            }
            self.ask.now = jiff::Timestamp::now();
            let found = entries(&self.ask, &self.run, self.next, PAGE, false).await;
            let found = found
                .inspect_err(|error| tracing::warn!(run = %self.run, %error, "a live page was cut off"))
                .ok()?;
            let Some(last) = found.last().map(|entry| entry.position) else {
                let own = self.run.clone();
                wait(&mut self.watch, |observed| observed.run == own).await;
                continue;
            };
            for entry in &found {
                let data = rendered(entry).ok()?.replace('\r', "");
                self.ready
                    .push_back(Event::default().event("entry").id(entry.position.to_string()).data(data));
            }
            // Behind the entries: what is loaded again holds them all.
            self.ready
                .push_back(Event::default().event("changed").id(last.to_string()).data(last.to_string()));
            (self.next, self.sent) = (last + 1, Some(Instant::now()));
        }
    }
}

/// Waits for an event of this process, or a time in which another one may have done something.
async fn wait(watch: &mut Receiver<Observed>, is_own: impl Fn(&Observed) -> bool) {
    let observed = async {
        loop {
            match watch.recv().await {
                Ok(observed) if is_own(&observed) => return,
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    };
    let _either = tokio::time::timeout(LOOK, observed).await;
    // What is observed may not be durable yet, and more may follow.
    tokio::time::sleep(PACE).await;
}

/// The list of runs, whenever it is another one.
pub(crate) async fn list_of_runs(ask: Ask, headers: HeaderMap) -> Answer {
    lists(ask, &headers, Topic::Runs)
}

/// The inbox, whenever it is another one.
pub(crate) async fn list_of_waits(ask: Ask, headers: HeaderMap) -> Answer {
    lists(ask, &headers, Topic::Inbox)
}

#[derive(Clone, Copy)]
enum Topic {
    Runs,
    Inbox,
}

impl Topic {
    /// The list and what changes with it, where that is another one than `seen`. The inner `None` is one that was seen.
    async fn load(self, ask: &Ask, seen: Option<&str>) -> Option<Option<(String, String)>> {
        let (list, mark) = match self {
            Self::Runs => {
                let list = runs::list(ask).await.ok()?;
                let mark = list.fingerprint();
                if seen == Some(&mark) {
                    return Some(None);
                }
                (rendered(&list).ok()?, mark)
            }
            Self::Inbox => {
                let look = inbox::look(ask).await.ok()?;
                let mark = look.fingerprint().to_owned();
                if seen == Some(&mark) {
                    return Some(None);
                }
                (rendered(&look.list(ask).await.ok()?).ok()?, mark)
            }
        };
        Some(Some((list, mark)))
    }
}

fn lists(ask: Ask, headers: &HeaderMap, topic: Topic) -> Answer {
    let permit = permit(&ask)?;
    let seen = last(&ask, headers).map(str::to_owned);
    let watch = ask.shared.engine().watch();
    let events = unfold(Some((ask, watch, seen, permit, None::<Instant>)), move |feed| async move {
        let (mut ask, mut watch, seen, permit, sent) = feed?;
        if let Some(sent) = sent {
            tokio::time::sleep_until(sent + PACE).await;
        }
        loop {
            if !ask.is_still_let_in() {
                return None;
            }
            ask.now = jiff::Timestamp::now();
            // Where the store fails, the client comes back.
            if let Some((page, mark)) = topic.load(&ask, seen.as_deref()).await? {
                let event = Event::default().event("list").id(&mark).data(page.replace('\r', ""));
                let sent = Some(Instant::now());
                return Some((Ok::<_, Infallible>(event), Some((ask, watch, Some(mark), permit, sent))));
            }
            wait(&mut watch, |_| true).await;
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}
