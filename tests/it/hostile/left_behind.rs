//! What a body has started and left behind: it is told when the body is over, and sends nothing in its name any more.

use std::sync::OnceLock;

use aether::http::{HttpError, StepHttp as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::*;
use crate::seeds::kit::in_time;

/// What bodies leave behind tells here what became of it.
#[derive(Clone)]
struct Home {
    told: UnboundedSender<String>,
    began: Arc<Semaphore>,
    go: Arc<Semaphore>,
    url: String,
    body: Arc<OnceLock<StepCx>>,
}

impl Home {
    async fn until_over(&self) {
        in_time(async {
            while !self.body.get().unwrap().is_over() {
                sleep(MS).await;
            }
        })
        .await;
    }
}

/// A closure that blocks until it is told to stop.
fn block(cx: &StepCx, home: &Home) {
    let (cx, home) = (cx.clone(), home.clone());
    drop(tokio::task::spawn_blocking(move || {
        home.began.add_permits(1);
        while !cx.is_cancelled() {
            std::thread::sleep(MS);
        }
        home.told.send(format!("stopped, over: {}", cx.is_over())).unwrap();
    }));
}

/// A task that sends a request once it is let go, or, with `waits`, once the body is over.
fn detach(cx: &StepCx, home: &Home, waits: bool) {
    let (cx, home) = (cx.clone(), home.clone());
    drop(tokio::spawn(async move {
        home.began.add_permits(1);
        if waits {
            cx.cancelled().await;
        } else {
            home.go.acquire().await.unwrap().forget();
        }
        let sent = cx.http().post(&home.url).json(&500).send().await;
        let kept = cx.keep_content(b"receipt".to_vec()).await;
        let sent = match sent {
            Ok(answer) => format!("status {}", answer.status),
            Err(HttpError::Over { .. }) => "over".into(),
            Err(other) => format!("{other:?}"),
        };
        home.told.send(format!("{sent}, kept: {}", kept.is_ok())).unwrap();
    }));
}

/// Starts something, and ends like this.
async fn leave(cx: &StepCx, what: &str, how: &str) -> Result<u32> {
    let home = cx.dep::<Home>()?;
    let _first = home.body.set(cx.clone());
    match what {
        "closure" => block(cx, &home),
        what => detach(cx, &home, what == "waiting task"),
    }
    drop(home.began.acquire().await?);
    match how {
        "returns" => Ok(1),
        "fails" => Err(Failure::permanent("no")),
        "panics" => panic!("a broken body"),
        _ => std::future::pending().await,
    }
}

#[step(effect = "tool", timeout = "100ms")]
async fn leaves_in_time(cx: &mut StepCx, what: String, how: String) -> Result<u32> {
    leave(cx, &what, &how).await
}

#[step(effect = "tool", timeout = "1h", heartbeat = "100ms")]
async fn leaves_silently(cx: &mut StepCx, what: String, how: String) -> Result<u32> {
    leave(cx, &what, &how).await
}

#[step(effect = "tool", timeout = "1h")]
async fn leaves(cx: &mut StepCx, what: String, how: String) -> Result<u32> {
    leave(cx, &what, &how).await
}

#[step(effect = "read")]
async fn leaves_and_reads(cx: &mut StepCx, what: String, how: String) -> Result<u32> {
    leave(cx, &what, &how).await
}

#[workflow]
async fn leaving(cx: &mut Cx, what: String, how: String) -> Result<u32> {
    match how.as_str() {
        "times out" => Ok(leaves_in_time(cx, what, how).await?),
        "is silent" => Ok(leaves_silently(cx, what, how).await?),
        "reads" => Ok(leaves_and_reads(cx, what, how).await?),
        "loses" => {
            cx.race((
                async |cx: &mut Cx| Ok(leaves(cx, what, how).await?),
                async |cx: &mut Cx| Ok(look(cx, 100).await? as u32),
            ))
            .await
        }
        _ => Ok(leaves(cx, what, how).await?),
    }
}

async fn server() -> MockServer {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    server
}

fn home(server: &MockServer) -> (Home, UnboundedReceiver<String>) {
    let (told, heard) = unbounded_channel();
    let (began, go) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    (Home { told, began, go, url: server.uri(), body: Arc::default() }, heard)
}

/// Every way in which an execution ends.
const ENDS: [&str; 10] = [
    "returns",
    "fails",
    "panics",
    "times out",
    "is silent",
    "loses",
    "loses its lease",
    "is cut off by a shutdown",
    "is terminated",
    "is cancelled",
];

/// Starts a run whose body leaves something behind and ends like this.
async fn ended(home: &Home, what: &str, how: &str) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = Engine::builder().store(Arc::clone(&store)).provide(home.clone());
    let engine = engine.lease(Duration::from_millis(400)).cancel_grace(Duration::from_millis(50));
    let engine = engine.start().await.unwrap();
    let run = engine.start::<leaving>((what.into(), how.into())).id("r").await.unwrap();
    drop(in_time(home.began.acquire()).await.unwrap());
    match how {
        "loses its lease" => drop(take_over(&*store, &run_id("r")).await),
        "is cut off by a shutdown" => {
            let _cut_off = engine.clone().shutdown_within(Duration::from_millis(50)).await;
        }
        "is terminated" => drop(engine.terminate(run.id(), "enough", "ann").await.unwrap()),
        "is cancelled" => drop(engine.cancel(run.id(), "enough", "ann").await.unwrap()),
        _ => {}
    }
    home.until_over().await;
}

#[tokio::test]
async fn a_closure_that_blocks_is_told_however_its_body_ends() {
    let server = server().await;
    for how in ENDS {
        let (home, mut heard) = home(&server);
        ended(&home, "closure", how).await;
        let told = in_time(heard.recv()).await.unwrap();
        // The cancellation tells it before the body is dropped.
        assert!(told == "stopped, over: true" || how == "is cancelled", "{how}: {told}");
    }
}

#[tokio::test]
async fn a_task_that_outlives_its_body_sends_nothing_and_keeps_nothing() {
    let server = server().await;
    for how in ENDS {
        let (home, mut heard) = home(&server);
        ended(&home, "task", how).await;
        home.go.add_permits(1);
        assert_eq!(in_time(heard.recv()).await.unwrap(), "over, kept: false", "{how}");
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_task_that_waits_is_woken_when_its_body_is_over() {
    let server = server().await;
    for how in ENDS.into_iter().filter(|how| *how != "is cancelled") {
        let (home, mut heard) = home(&server);
        ended(&home, "waiting task", how).await;
        assert_eq!(in_time(heard.recv()).await.unwrap(), "over, kept: false", "{how}");
    }
    assert_eq!(server.received_requests().await.unwrap().len(), 0);
}

#[tokio::test]
async fn a_body_of_a_run_that_is_being_cancelled_still_sends() {
    let server = server().await;
    let (home, mut heard) = home(&server);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = Engine::builder().store(store).provide(home.clone()).start().await.unwrap();
    let run = engine.start::<leaving>(("waiting task".into(), "waits".into())).id("r").await.unwrap();
    drop(in_time(home.began.acquire()).await.unwrap());
    engine.cancel(run.id(), "enough", "ann").await.unwrap();
    assert_eq!(in_time(heard.recv()).await.unwrap(), "status 200, kept: true");
    let ended = in_time(run.result()).await;
    assert!(matches!(ended, Err(RunError::Cancelled { .. })), "{ended:?}");
}
