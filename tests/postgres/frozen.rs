//! A server that takes requests and answers none, as on a machine that is frozen.

use std::time::Duration;

use aether::postgres::PostgresOptions;
use aether::prelude::*;
use aether_pg_tests::Cluster;
use rustix::process::{Pid, Signal, kill_process};

use super::kit::in_time;
use super::refusals::in_a_file;

#[workflow]
async fn paused(cx: &mut Cx) -> Result<u64> {
    Ok(cx.signal("go_on").await?)
}

/// All processes of a server, stopped until it is dropped.
struct Frozen(Vec<Pid>);

impl Frozen {
    fn new(cluster: &Cluster) -> Self {
        let server = cluster.pid().unwrap();
        let stop = |pid: &Pid| kill_process(*pid, Signal::STOP).unwrap();
        // First, so that it makes no process that is not listed.
        stop(&Pid::from_raw(server as i32).unwrap());
        let is_of_server = |pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
            *pid == server || parent == Some(server.to_string().as_str())
        };
        let names = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let pids = names.filter_map(|name| name.parse().ok()).filter(is_of_server);
        let all: Vec<Pid> = pids.filter_map(|pid| Pid::from_raw(pid as i32)).collect();
        assert!(all.len() > 2, "a server has several processes");
        all.iter().for_each(stop);
        Self(all)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _it_may_have_ended = kill_process(*pid, Signal::CONT);
        }
    }
}

/// Nothing is written, which the shutdown says; the runs go to whoever opens the store next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_beside_a_frozen_server_ends() {
    let cluster = Cluster::begin(Cluster::options());
    let options =
        PostgresOptions::new().statement_timeout(Duration::from_secs(2)).patience(Duration::from_secs(2));
    let start = async || {
        let builder = Engine::builder().postgres_with(cluster.url("postgres"), options.clone());
        builder
            .lease(Duration::from_secs(2))
            .without::<in_a_file>()
            .allow_missing_deps()
            .start()
            .await
            .unwrap()
    };
    let engine = start().await;
    let run = engine.start::<paused>(()).id("run").await.unwrap().id().clone();
    let frozen = Frozen::new(&cluster);
    // It wakes the run, which has something to write then, unless it fails before.
    let _unanswered =
        tokio::time::timeout(Duration::from_millis(300), engine.signal(&run, "go_on", "once", &7_u64)).await;
    let closed = in_time(engine.shutdown_within(Duration::from_secs(1))).await;
    assert!(closed.is_err(), "it could not release its runs");
    drop(frozen);
    let engine = in_time(start()).await;
    let _delivered_before = engine.signal(&run, "go_on", "once", &7_u64).await;
    let handle = engine.handle::<paused>("run").await.unwrap();
    assert_eq!(in_time(handle.result()).await.unwrap(), 7);
    engine.shutdown().await.unwrap();
}
