//! A server in between that loses answers: it lets a request through, waits for the reply, and breaks the connection.
//!
//! Promise: a request whose reply was lost was carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// The proxy's address, and how many replies it will still lose.
pub(super) struct Proxy {
    port: u16,
    losing: Arc<AtomicI64>,
    /// Replies that are let through before.
    passing: Arc<AtomicI64>,
    frozen: Arc<AtomicBool>,
    holding: Arc<AtomicBool>,
    refusing: Arc<AtomicBool>,
    cut: Arc<Cut>,
}

/// How often the connections were broken.
#[derive(Default)]
struct Cut {
    times: AtomicI64,
    told: Notify,
}

/// What its connections share.
type State = (Arc<AtomicI64>, Arc<AtomicI64>, Arc<AtomicBool>, Arc<Cut>);

impl Proxy {
    /// Stands between its clients and the server at `port`.
    pub(super) async fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let (losing, passing) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let (frozen, holding) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let cut = Arc::new(Cut::default());
        let shared: State = (losing.clone(), passing.clone(), frozen.clone(), cut.clone());
        let (held, refusing) = (holding.clone(), Arc::new(AtomicBool::new(false)));
        let refused = refusing.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if refused.load(Ordering::SeqCst) {
                    continue;
                }
                while held.load(Ordering::SeqCst) {
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
                let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(pipe(client, server, shared.clone()));
            }
        });
        Self { port: own, losing, passing, frozen, holding, refusing, cut }
    }

    /// The URL of a database through this proxy.
    pub(super) fn url(&self, database: &str) -> String {
        format!("postgres://aether@127.0.0.1:{}/{database}", self.port)
    }

    /// Loses the replies to the next so many requests of connections that are there by then.
    pub(super) fn lose(&self, replies: i64) {
        self.losing.store(replies, Ordering::SeqCst);
    }

    /// As [`Proxy::lose`], after some replies that are let through.
    pub(super) fn lose_after(&self, passed: i64, replies: i64) {
        self.passing.store(passed, Ordering::SeqCst);
        self.lose(replies);
    }

    /// No reply comes through any more, and no connection breaks.
    pub(super) fn freeze(&self) {
        self.frozen.store(true, Ordering::SeqCst);
    }

    /// Replies come through again.
    pub(super) fn thaw(&self) {
        self.frozen.store(false, Ordering::SeqCst);
    }

    /// Breaks the connections that are there. The server goes on with what it was asked for.
    pub(super) fn cut(&self) {
        self.cut.times.fetch_add(1, Ordering::SeqCst);
        self.cut.told.notify_waiters();
    }

    /// New connections wait, or wait no longer.
    pub(super) fn hold(&self, holds: bool) {
        self.holding.store(holds, Ordering::SeqCst);
    }

    /// New connections break at once, or do so no longer.
    pub(super) fn refuse(&self, refuses: bool) {
        self.refusing.store(refuses, Ordering::SeqCst);
    }

    /// How many it will still lose.
    pub(super) fn left(&self) -> i64 {
        self.losing.load(Ordering::SeqCst)
    }
}

/// The end of a reply to a statement that was carried out: `ReadyForQuery`, outside of a transaction.
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

async fn pipe(client: TcpStream, server: TcpStream, (losing, passing, frozen, cut): State) {
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let up = tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
    let mut buffer = vec![0; 1 << 16];
    let before = cut.times.load(Ordering::SeqCst);
    loop {
        let read = tokio::select! {
            read = from_server.read(&mut buffer) => read,
            () = cut.told.notified() => break,
        };
        // Also when it was told while this one was busy.
        if cut.times.load(Ordering::SeqCst) > before {
            break;
        }
        let Ok(read @ 1..) = read else { break };
        if frozen.load(Ordering::SeqCst) {
            continue;
        }
        let reply = &buffer[..read];
        // A reply with a command's tag: what parses and describes a statement changes nothing, and is let through.
        let is_done = reply.windows(READY.len()).any(|end| end == READY) && has_command_tag(reply);
        let less = |n: i64| (n > 0).then_some(n - 1);
        let is_losing = losing.load(Ordering::SeqCst) > 0;
        if is_done
            && is_losing
            && passing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_err()
            && losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
        {
            break;
        }
        if to_client.write_all(reply).await.is_err() {
            break;
        }
    }
    up.abort();
}

/// Whether messages of the server say that a statement is complete.
fn has_command_tag(mut messages: &[u8]) -> bool {
    while let [kind, a, b, c, d, rest @ ..] = messages {
        if *kind == b'C' {
            return true;
        }
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        messages = rest.get(length.saturating_sub(4)..).unwrap_or_default();
    }
    false
}
