//! Stands between an engine and its server, and breaks the connection of a transaction step at a chosen moment.
//!
//! Promise: a commit that was let through was answered by the server, and one that was not has never reached it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Where a step's connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Instead of the body's statement.
    InBody,
    /// Instead of the commit.
    BeforeCommit,
    /// Between the commit and its answer.
    AfterCommit,
}

/// What is done where it breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Both sides are told that the other one is gone.
    Close,
    /// Nothing is sent until the client is gone.
    Hold,
}

/// The proxy, and what it has done.
pub(crate) struct Proxy {
    port: u16,
    cut: UnboundedReceiver<Cut>,
}

/// What the connections have in common.
struct Shared {
    /// What a body's statement holds, and nothing else does.
    mark: &'static str,
    then: Then,
    /// For each call of a body, in their order.
    plan: Mutex<VecDeque<Option<Cut>>>,
    cut: UnboundedSender<Cut>,
}

impl Proxy {
    /// Stands before the server of this URL. The calls of bodies, which are told by `mark` in their statement, go as the
    /// plan says, and those after it undisturbed.
    pub(crate) async fn before(
        url: &str,
        mark: &'static str,
        then: Then,
        plan: impl IntoIterator<Item = Option<Cut>>,
    ) -> Self {
        let server = port_of(url);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, cut) = unbounded_channel();
        let plan = Mutex::new(plan.into_iter().collect());
        let shared = Arc::new(Shared { mark, then, plan, cut: sender });
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let shared = shared.clone();
                tokio::spawn(async move {
                    Line { shared, call: None, is_committed: false }.carry(client, server).await
                });
            }
        });
        Self { port, cut }
    }

    /// The URL of the same database through this proxy.
    pub(crate) fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", port_of(url)), &format!(":{}/", self.port))
    }

    /// The next connection that breaks.
    pub(crate) async fn next_cut(&mut self) -> Cut {
        self.cut.recv().await.unwrap()
    }

    /// The connections that broke and were not asked for yet.
    pub(crate) fn cuts(&mut self) -> Vec<Cut> {
        std::iter::from_fn(|| self.cut.try_recv().ok()).collect()
    }
}

fn port_of(url: &str) -> u16 {
    let (_, rest) = url.rsplit_once(':').unwrap();
    rest.split_once('/').unwrap().0.parse().unwrap()
}

/// One connection.
struct Line {
    shared: Arc<Shared>,
    /// A body's call that is under way, and where it is cut.
    call: Option<Option<Cut>>,
    /// Whether a commit that is not to be answered was let through.
    is_committed: bool,
}

impl Line {
    async fn carry(mut self, mut client: TcpStream, mut server: TcpStream) {
        let (mut sent, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let cut = tokio::select! {
                read = client.read(&mut sent) => {
                    let Ok(read @ 1..) = read else { return };
                    let cut = self.is_cut_before(&sent[..read]);
                    if cut.is_none() && server.write_all(&sent[..read]).await.is_err() {
                        return;
                    }
                    cut
                }
                read = server.read(&mut answered) => {
                    let Ok(read @ 1..) = read else { return };
                    let cut = self.is_cut_at(&answered[..read]);
                    if cut.is_none() && client.write_all(&answered[..read]).await.is_err() {
                        return;
                    }
                    cut
                }
            };
            if let Some(cut) = cut {
                let _the_test_may_be_over = self.shared.cut.send(cut);
                if self.shared.then == Then::Hold {
                    while let Ok(1..) = client.read(&mut sent).await {}
                }
                return;
            }
        }
    }

    /// What the client sends.
    fn is_cut_before(&mut self, bytes: &[u8]) -> Option<Cut> {
        let mark = self.shared.mark.as_bytes();
        if self.call.is_none() && bytes.windows(mark.len()).any(|part| part == mark) {
            self.call = Some(self.shared.plan.lock().unwrap().pop_front().flatten());
        }
        let is_commit = bytes.ends_with(b"COMMIT\0");
        match self.call {
            Some(Some(Cut::InBody)) => Some(Cut::InBody),
            Some(Some(Cut::BeforeCommit)) if is_commit => Some(Cut::BeforeCommit),
            Some(cut) if is_commit => {
                self.is_committed = cut == Some(Cut::AfterCommit);
                self.call = None;
                None
            }
            _ => None,
        }
    }

    /// What the server answers.
    fn is_cut_at(&self, bytes: &[u8]) -> Option<Cut> {
        let tag = b"COMMIT\0Z";
        (self.is_committed && bytes.windows(tag.len()).any(|part| part == tag)).then_some(Cut::AfterCommit)
    }
}
