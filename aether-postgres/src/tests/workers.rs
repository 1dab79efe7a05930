//! Workers that register at the same time, and those that never come back.

use std::time::{Duration, Instant};

use aether_core::queue::Serves;
use aether_core::store::Store as _;
use futures_util::future::join_all;

use super::{LEASE, Table, code, options, request, run_id, takeover, worker};
use crate::database::Database;
use crate::store::PostgresStore;

#[tokio::test]
async fn a_name_is_given_to_one_of_many() {
    let table = Table::lay().await;
    let another = table.another().await;
    let codes = [code("flow"), code("flow"), code("other")];
    let tries = (0..8).map(|n| {
        let database = if n % 2 == 0 { &table.database } else { &another };
        let codes = &codes;
        async move { database.register(&worker("w"), LEASE, codes).await.unwrap() }
    });
    let answers = join_all(tries).await;
    assert_eq!(answers.iter().filter(|new| **new).count(), 1);
    assert_eq!(table.number("SELECT count(*) FROM worker_codes").await, 2);
}

#[tokio::test]
async fn codes_of_a_worker_count_while_it_is_there() {
    let table = Table::lay().await;
    table.database.register(&worker("w"), LEASE, &[code("flow")]).await.unwrap();
    let elsewhere = async || table.database.codes_elsewhere(&worker("me")).await.unwrap();
    assert_eq!(elsewhere().await, [code("flow")]);
    let silent = "UPDATE workers SET seen_at = clock_timestamp() - interval '10 seconds'";
    table.client.batch_execute(silent).await.unwrap();
    assert_eq!(elsewhere().await, [code("flow")], "its lease is a minute: it may be back");
    let gone = "UPDATE workers SET seen_at = clock_timestamp() - interval '70 seconds'";
    table.client.batch_execute(gone).await.unwrap();
    assert_eq!(elsewhere().await, []);
    // It was only paused: a renewal says that it is there.
    table.database.renew(&worker("w"), LEASE, &[]).await.unwrap();
    assert_eq!(elsewhere().await, [code("flow")]);
}

#[tokio::test]
async fn what_an_idle_worker_asks_for_says_that_it_is_there_as_often_as_a_busy_one_renews() {
    let table = Table::lay().await;
    let lease = Duration::from_millis(400);
    table.database.register(&worker("w"), lease, &[code("flow")]).await.unwrap();
    let gone = "UPDATE workers SET seen_at = clock_timestamp() - interval '10 seconds'";
    table.client.batch_execute(gone).await.unwrap();
    assert_eq!(table.database.codes_elsewhere(&worker("me")).await.unwrap(), []);
    // What is seen of it lasts for a lease: on a slow machine, that may be over before one looks.
    let seen = async || {
        tokio::time::sleep(lease / 4).await;
        table.database.claim(&request("w", 1)).await.unwrap();
        table.database.codes_elsewhere(&worker("me")).await.unwrap()
    };
    let until = Instant::now() + Duration::from_secs(60);
    let mut codes = seen().await;
    while codes.is_empty() && Instant::now() < until {
        codes = seen().await;
    }
    assert_eq!(codes, [code("flow")]);
}

#[tokio::test]
async fn a_lease_for_ever_keeps_no_one_from_asking_for_codes() {
    let table = Table::lay().await;
    table.database.register(&worker("w"), Duration::MAX, &[code("flow")]).await.unwrap();
    assert_eq!(table.database.codes_elsewhere(&worker("me")).await.unwrap(), [code("flow")]);
    let gone = "UPDATE workers SET seen_at = clock_timestamp() - interval '2 days'";
    table.client.batch_execute(gone).await.unwrap();
    assert_eq!(table.database.codes_elsewhere(&worker("me")).await.unwrap(), []);
}

#[tokio::test]
async fn a_worker_that_never_came_back_is_forgotten_once_it_holds_nothing() {
    let table = Table::lay().await;
    for name in ["holds", "holds nothing"] {
        table.database.register(&worker(name), LEASE, &[code("flow")]).await.unwrap();
    }
    table.run("run", Some("holds"), 0).await;
    let lost = "INSERT INTO lost VALUES ('holds nothing', 1, 'other', 1), ('holds', 1, 'other', 1);
        UPDATE workers SET seen_at = clock_timestamp() - interval '2 days'";
    table.client.batch_execute(lost).await.unwrap();
    table.database.register(&worker("new"), LEASE, &[]).await.unwrap();
    assert_eq!(table.number("SELECT count(*) FROM workers").await, 2);
    assert_eq!(table.number("SELECT count(*) FROM lost").await, 1);
    assert_eq!(table.number("SELECT count(*) FROM worker_codes").await, 1);
}

/// As on a machine that was suspended: whatever it asks for first says again what it can do.
#[tokio::test]
async fn a_worker_that_comes_back_after_it_was_forgotten_is_known_again_with_all_it_can_do() {
    for renews in [true, false] {
        let table = Table::lay().await;
        let lease = Duration::from_millis(400);
        let serves = Serves { queues: None, others: false };
        table.database.register(&worker("w"), lease, &[code("flow"), code("other")]).await.unwrap();
        table.database.serve(&worker("w"), &serves).await.unwrap();
        let gone = "UPDATE workers SET seen_at = clock_timestamp() - interval '2 days'";
        table.client.batch_execute(gone).await.unwrap();
        let another = table.another().await;
        another.register(&worker("new"), LEASE, &[]).await.unwrap();
        assert_eq!(table.number("SELECT count(*) FROM worker_codes").await, 0, "it is forgotten");
        tokio::time::sleep(lease / 2).await;
        if renews {
            // More than once: it is told only where it is not known.
            for _ in 0..2 {
                table.database.renew(&worker("w"), lease, &[]).await.unwrap();
            }
        } else {
            table.database.claim(&request("w", 1)).await.unwrap();
        }
        let known = another.known_workers().await.unwrap();
        let back = known.iter().find(|known| known.id == worker("w")).unwrap();
        let mut codes = back.codes.clone();
        codes.sort_unstable();
        assert_eq!((codes, &back.serves), (vec![code("flow"), code("other")], &serves), "renews: {renews}");
        // Who has retired does not come back.
        table.database.retire(&worker("w")).await.unwrap();
        table.database.renew(&worker("w"), lease, &[]).await.unwrap();
        assert_eq!(table.number("SELECT count(*) FROM worker_codes").await, 0);
    }
}

#[tokio::test]
async fn a_former_owner_that_is_paused_is_known_until_it_notices_or_is_gone() {
    let table = Table::lay().await;
    let store = PostgresStore::connect_with(&table.url, options()).await.unwrap();
    let paused = table.another().await;
    paused.register(&worker("w"), LEASE, &[code("flow")]).await.unwrap();
    for run in ["one", "two"] {
        table.run(run, Some("w"), 0).await;
    }
    paused.renew(&worker("w"), LEASE, &[]).await.unwrap();
    let unaware = async |run: &str| store.unaware_owners(&run_id(run)).await.unwrap();
    assert_eq!(unaware("one").await, []);
    let taken = table.database.claim(&takeover("me", 1, "w", 1)).await.unwrap();
    assert_eq!(taken.len(), 2);
    assert_eq!(unaware("one").await, [worker("w")], "its process may wake up inside of a body");
    // It has noticed one of them: nothing of that run is in flight there any more.
    let lost = paused.renew(&worker("w"), LEASE, &[]).await.unwrap();
    let one: Vec<_> = lost.iter().filter(|lost| lost.run == run_id("one")).cloned().collect();
    paused.renew(&worker("w"), LEASE, &one).await.unwrap();
    assert_eq!((unaware("one").await, unaware("two").await), (vec![], vec![worker("w")]));
    // The process dies: nothing that it had begun can happen any more.
    paused.close_writers().await.unwrap();
    drop(paused);
    let gone = "SELECT count(*) FROM pg_stat_activity a JOIN workers w ON w.backend = a.pid WHERE w.id = 'w'";
    while table.number(gone).await > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    assert_eq!(unaware("two").await, []);
}

/// Each process may have an account of its own, which sees nothing of the sessions of others.
#[tokio::test]
async fn a_former_owner_of_another_account_is_known_as_well() {
    let table = Table::lay().await;
    let other = "CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA aether TO stranger;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA aether TO stranger";
    table.client.batch_execute(other).await.unwrap();
    let stranger = Database::open(&table.url.replace("//aether@", "//stranger@"), options()).await.unwrap();
    table.database.register(&worker("w"), LEASE, &[code("flow")]).await.unwrap();
    table.run("run", Some("w"), 0).await;
    assert_eq!(stranger.claim(&takeover("me", 1, "w", 0)).await.unwrap().len(), 1);
    assert_eq!(stranger.unaware_owners(&run_id("run")).await.unwrap(), [worker("w")]);
}

#[tokio::test]
async fn a_session_that_outlives_its_machine_is_not_waited_for_for_ever() {
    let table = Table::lay().await;
    let dead = table.another().await;
    dead.register(&worker("w"), LEASE, &[code("flow")]).await.unwrap();
    table.run("run", Some("w"), 0).await;
    table.database.claim(&takeover("me", 1, "w", 0)).await.unwrap();
    let unaware = async || table.database.unaware_owners(&run_id("run")).await.unwrap();
    assert_eq!(unaware().await, [worker("w")]);
    // Paused for long: its session is open. With a lease of 15 s, and of a minute.
    for (lease, seconds, known) in
        [(15, 90, true), (15, 115, true), (15, 125, false), (60, 290, true), (60, 310, false)]
    {
        let paused = format!(
            "UPDATE workers SET lease = {lease} * 1000000::int8, seen_at = clock_timestamp() - interval '{seconds} seconds'
             WHERE id = 'w'"
        );
        table.client.batch_execute(&paused).await.unwrap();
        assert_eq!(!unaware().await.is_empty(), known, "{seconds} s with a lease of {lease} s");
    }
}

#[tokio::test]
async fn a_former_owner_whose_lease_is_for_ever_is_known_as_well() {
    let table = Table::lay().await;
    table.database.register(&worker("w"), Duration::MAX, &[code("flow")]).await.unwrap();
    table.run("run", Some("w"), 0).await;
    table.database.claim(&takeover("me", 1, "w", 0)).await.unwrap();
    // Also where only a restart of the server speaks for it.
    for session in
        ["backend = backend", "backend = 0, backend_start = pg_postmaster_start_time() - interval '1 hour'"]
    {
        table.client.batch_execute(&format!("UPDATE workers SET {session} WHERE id = 'w'")).await.unwrap();
        assert_eq!(table.database.unaware_owners(&run_id("run")).await, Ok(vec![worker("w")]), "{session}");
    }
}

#[tokio::test]
async fn after_a_restart_of_the_server_a_former_owner_has_two_leases_to_come_back() {
    let table = Table::lay().await;
    table.database.register(&worker("w"), LEASE, &[code("flow")]).await.unwrap();
    table.run("run", Some("w"), 0).await;
    table.database.claim(&takeover("me", 1, "w", 0)).await.unwrap();
    let unaware = async || table.database.unaware_owners(&run_id("run")).await.unwrap();
    // As a restart leaves it: the session is one of an earlier life of the server, and its pid is nobody's.
    let restarted = async |lease: &str| {
        let earlier = "backend = 0, backend_start = pg_postmaster_start_time() - interval '1 hour'";
        let sql = format!("UPDATE workers SET {earlier}, lease = {lease} WHERE id = 'w'");
        table.client.batch_execute(&sql).await.unwrap();
    };
    restarted("86400000000").await;
    assert_eq!(unaware().await, [worker("w")]);
    restarted("1").await;
    assert_eq!(unaware().await, []);
}

/// Also that of a worker that holds nothing, and renews nothing.
#[tokio::test]
async fn a_look_at_the_workers_follows_the_servers_clock() {
    let table = Table::lay().await;
    let hours = 3 * 3_600_000_000_i64;
    let clock = &table.database.clock;
    let before = table.number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8").await;
    clock.set(before - hours, clock.elapsed());
    table.database.workers().await.unwrap();
    assert!(clock.error_at(before, clock.elapsed()) < hours / 10);
}
