//! The connections of a server: how many there may be, and which of them goes where there is no room.
//!
//! Promise: whoever has shown who they are keeps their connections. Others never keep them out: where there is no room, the
//! oldest connection goes on which nobody has, of the address that holds most of those.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;

/// Whoever is at the other end of a connection: nobody that is known, until they have shown who they are.
#[derive(Clone, Debug, Default)]
pub struct Stranger(Arc<AtomicBool>);

impl Stranger {
    /// They have shown who they are.
    pub fn let_in(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn was_let_in(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The connections that are open.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    tasks: JoinSet<()>,
    /// Oldest first.
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    peer: IpAddr,
    stranger: Stranger,
    ends: AbortHandle,
}

impl Connections {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> Self {
        Self { most, tasks: JoinSet::new(), open: Vec::new() }
    }

    /// Takes a connection from `peer`. Where all others are known, it waits until one of them ends.
    pub async fn take(
        &mut self,
        peer: IpAddr,
        stranger: Stranger,
        talk: impl Future<Output = ()> + Send + 'static,
    ) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.open.retain(|open| !open.ends.is_finished());
            if self.open.len() < self.most {
                break;
            }
            match self.least() {
                Some(at) => self.open.remove(at).ends.abort(),
                None => drop(self.tasks.join_next().await),
            }
        }
        let ends = self.tasks.spawn(talk);
        self.open.push(Open { peer, stranger, ends });
    }

    /// Waits until all have ended, and ends those that have not after `patience`.
    pub async fn drain(mut self, patience: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _late = timeout(patience, all).await;
    }

    /// The connection that can be spared; `None` where each is somebody's who was let in.
    fn least(&self) -> Option<usize> {
        let mut held: HashMap<IpAddr, usize> = HashMap::new();
        for open in self.open.iter().filter(|open| !open.stranger.was_let_in()) {
            *held.entry(open.peer).or_default() += 1;
        }
        let most = held.values().copied().max()?;
        self.open.iter().position(|open| {
            !open.stranger.was_let_in() && held.get(&open.peer).is_some_and(|count| *count == most)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;

    #[tokio::test]
    async fn strangers_of_the_address_with_most_of_them_make_room() {
        let mut connections = Connections::new(4);
        let at = |last: u8| IpAddr::from([10, 0, 0, last]);
        let known = Stranger::default();
        known.let_in();
        connections.take(at(1), known.clone(), pending()).await;
        connections.take(at(1), Stranger::default(), pending()).await;
        connections.take(at(2), Stranger::default(), pending()).await;
        connections.take(at(2), Stranger::default(), pending()).await;
        for _ in 0..10 {
            connections.take(at(2), Stranger::default(), pending()).await;
        }
        let peers: Vec<_> = connections.open.iter().map(|open| open.peer).collect();
        assert_eq!(peers, [at(1), at(1), at(2), at(2)], "one address pushes out its own");
        assert!(connections.open[0].stranger.was_let_in());
        for _ in 0..10 {
            connections.take(at(3), known.clone(), pending()).await;
            if connections.least().is_none() {
                break;
            }
        }
        assert_eq!(connections.open.len(), 4);
        assert!(connections.open[0].peer == at(1), "who was let in stays");
    }

    #[tokio::test]
    async fn a_connection_that_does_not_end_is_waited_for_as_long_as_it_is_said() {
        let mut connections = Connections::new(2);
        connections.take(IpAddr::from([10, 0, 0, 1]), Stranger::default(), pending()).await;
        timeout(Duration::from_secs(10), connections.drain(Duration::from_millis(20))).await.unwrap();
    }
}
