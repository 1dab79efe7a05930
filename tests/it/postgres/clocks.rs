//! Two hosts on one Postgres whose clocks are hours apart. What is held still: both engines stand in one process, and the
//! server's clock is right.

use std::time::Duration;

use aether::engine::{Environment, SystemEnvironment};
use aether::postgres::EnginePostgres as _;
use aether::prelude::*;
use aether_pg_tests::Cluster;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};

/// A host whose clock is this many hours ahead.
#[derive(Debug)]
struct Skewed(i64);

impl Environment for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_hours(self.0)
    }

    fn is_of_one_machine(&self) -> bool {
        true
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep_until(until - SignedDuration::from_hours(self.0))
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        SystemEnvironment.sleep(span)
    }

    fn spawn_keeper(&self, task: BoxFuture<'static, ()>) {
        SystemEnvironment.spawn_keeper(task);
    }
}

/// Sleeps, then waits for a word.
#[workflow]
async fn patient(cx: &mut Cx, _input: ()) -> Result<String> {
    cx.sleep(Duration::from_secs(1)).await;
    let word: String = cx.signal("word").await?;
    cx.sleep(Duration::from_secs(1)).await;
    Ok(word)
}

/// What one host starts, signals and hands over, the other one finds due at once, whichever clock is ahead.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_with_wrong_clocks_agree_on_what_is_due() {
    for (first, second) in [(-3, 3), (3, -3)] {
        let database = Cluster::shared().database().await;
        let engine = |hours: i64| {
            let url = database.url();
            async move {
                let builder = Engine::builder().environment(std::sync::Arc::new(Skewed(hours)));
                builder.postgres(url).start().await.unwrap()
            }
        };
        let host = engine(first).await;
        let id = host.start::<patient>(()).await.unwrap().id().clone();
        // The run moves to the other host.
        host.shutdown().await.unwrap();
        let other = engine(second).await;
        let client = engine(first).await;
        let end = async {
            client.signal(&id, "word", "1", &"go").await.unwrap();
            other.handle::<patient>(id.as_str()).await.unwrap().result().await.unwrap()
        };
        let word = tokio::time::timeout(Duration::from_secs(120), end).await;
        assert_eq!(word.expect("the run waits for a clock that is hours away"), "go");
        other.shutdown().await.unwrap();
        client.shutdown().await.unwrap();
    }
}
