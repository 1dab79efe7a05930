//! Claims beside claims, renewals, appends, retirements and releases.

use std::collections::BTreeSet;

use aether_core::contract::Status;
use aether_core::id::CodeId;
use aether_core::payload::Payload;
use aether_core::store::{Append, ClaimRequest, ForeignRuns, LostRun, StatusChange};
use futures_util::future::join_all;
use jiff::Timestamp;

use super::writer::{status, write};
use super::{LEASE, Table, at, micros, names, options, request, run_id, takeover, worker};
use crate::claims::{CLAIM_DUE, CLAIM_TAKEN_OVER};
use crate::connection::Param;

/// A claim of up to two due runs in a transaction that is still open.
async fn claim_in(client: &tokio_postgres::Client, name: &str) -> usize {
    let codes = vec![super::code("flow").as_str().to_owned()];
    let params: [Param<'_>; 6] = [&name, &"claim:open", &codes, &micros(100), &i64::MIN, &2_i64];
    client.query(CLAIM_DUE.as_str(), &params).await.unwrap().len()
}

#[tokio::test]
async fn a_claim_that_is_being_written_hides_its_runs_and_no_others() {
    let table = Table::lay().await;
    for n in 1..=4 {
        table.run(&format!("run-{n}"), None, n).await;
    }
    let open = table.begin().await;
    assert_eq!(claim_in(&open, "w").await, 2);
    let other = table.database.claim(&request("v", 100)).await.unwrap();
    assert_eq!(names(&other), ["run-3", "run-4"], "the longest due are being claimed");
    open.batch_execute("ROLLBACK").await.unwrap();
    let rest = table.database.claim(&request("v", 100)).await.unwrap();
    assert_eq!(names(&rest), ["run-1", "run-2"]);
    assert!(rest.iter().all(|lease| lease.run.epoch == 1));
}

#[tokio::test]
async fn a_run_that_somebody_has_locked_is_left_to_a_later_claim() {
    let table = Table::lay().await;
    table.run("locked", None, 1).await;
    table.run("free", None, 2).await;
    let open = table.begin().await;
    open.batch_execute("SELECT FROM runs WHERE id = 'locked' FOR UPDATE").await.unwrap();
    assert_eq!(names(&table.database.claim(&request("w", 100)).await.unwrap()), ["free"]);
    open.batch_execute("COMMIT").await.unwrap();
    assert_eq!(names(&table.database.claim(&request("w", 100)).await.unwrap()), ["locked"]);
}

/// Messages to runs that are held leave rows in `due`, which nobody can take: a free run of other code is due later, and
/// must not wait for as long as they are held.
#[tokio::test]
async fn held_runs_of_one_code_keep_no_free_run_of_another_one_back() {
    for portable in [false, true] {
        let table = Table::with(options().portable(portable)).await;
        for n in 0..3 {
            table.run(&format!("held-{n}"), Some("v"), 0).await;
        }
        table.run("free", None, 9).await;
        let rows = "INSERT INTO due SELECT shard, id, created_at, code, 1, false FROM runs WHERE owner IS NOT NULL;
            UPDATE runs SET code = 'other' WHERE id = 'free'; UPDATE due SET code = 'other' WHERE run = 'free'";
        table.client.batch_execute(rows).await.unwrap();
        let codes = vec![super::code("flow"), CodeId::from("other".to_owned())];
        let claim = ClaimRequest { limit: 1, codes, ..request("w", 100) };
        assert_eq!(names(&table.database.claim(&claim).await.unwrap()), ["free"], "portable: {portable}");
    }
}

/// A worker that has claimed a run again says so, without a row that claims would find.
#[tokio::test]
async fn a_held_run_that_is_running_has_no_row() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("run", Some("first"), 0).await;
    let runs = |append: &mut Append| {
        append.status = status(Status::Running, false).map(|to| StatusChange { wake_at: Some(at(9)), ..to });
    };
    write(&table.database, "run", 1, runs).await.unwrap();
    assert_eq!(table.number("SELECT count(*) FROM due").await, 0);
    assert_eq!(names(&table.database.claim(&takeover("w", 5, "first", 0)).await.unwrap()), ["run"]);
}

#[tokio::test]
async fn claims_of_many_processes_share_the_runs_with_locks_and_without() {
    for portable in [false, true] {
        let table = Table::with(options().portable(portable).connections(3)).await;
        for n in 0..60 {
            table.run(&format!("run-{n}"), None, n).await;
        }
        let another = table.another().await;
        let claims = (0..12).map(|n| {
            let database = if n % 2 == 0 || portable { &table.database } else { &another };
            let request = ClaimRequest { limit: 6, ..request(&format!("w{n}"), 100) };
            async move { database.claim(&request).await.unwrap() }
        });
        let got = join_all(claims).await.concat();
        let distinct: BTreeSet<_> = got.iter().map(|lease| lease.run.id.clone()).collect();
        assert_eq!((got.len(), distinct.len()), (60, 60), "portable: {portable}");
        assert_eq!(table.number("SELECT count(*) FROM due").await, 0);
        assert_eq!(table.number("SELECT count(*) FROM journal WHERE count = 0").await, 60);
    }
}

#[tokio::test]
async fn an_append_of_the_former_owner_comes_before_the_fence_or_not_at_all() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("run", Some("first"), 0).await;
    let append = table.begin().await;
    table.frame(&append, "run", 1, 1).await;
    let claim = {
        let database = table.database.clone();
        tokio::spawn(async move { database.claim(&takeover("w", 50, "first", 0)).await.unwrap() })
    };
    table.until_blocked(1).await;
    append.batch_execute("COMMIT").await.unwrap();
    assert_eq!(names(&claim.await.unwrap()), [""; 0], "the journal has another end than it saw");
    let leases = table.database.claim(&takeover("w", 50, "first", 0)).await.unwrap();
    assert_eq!((leases[0].run.epoch, leases[0].run.next), (2, 2));
    assert_eq!(leases[0].taken_from, Some(worker("first")));
    // What comes now finds the fence in its place.
    let sql = "INSERT INTO journal SELECT shard, run, frame + 1, 2, 1, 0, 1, false, '[]', chain FROM journal WHERE frame = 1";
    assert!(table.client.batch_execute(sql).await.is_err());
}

#[tokio::test]
async fn a_renewal_that_is_being_written_keeps_the_runs() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("run", Some("first"), 0).await;
    for (end, expected) in [("COMMIT", vec![]), ("ROLLBACK", vec!["run"])] {
        let renewals = table.number("SELECT renewals FROM workers WHERE id = 'first'").await;
        let renewal = table.begin().await;
        renewal.batch_execute("UPDATE workers SET renewals = renewals + 1 WHERE id = 'first'").await.unwrap();
        let request = takeover("w", 50, "first", u64::try_from(renewals).unwrap());
        let claim = {
            let database = table.database.clone();
            tokio::spawn(async move { database.claim(&request).await.unwrap() })
        };
        table.until_blocked(1).await;
        renewal.batch_execute(end).await.unwrap();
        assert_eq!(names(&claim.await.unwrap()), expected, "{end}");
    }
}

/// A message that was sent before the server's clock was set back is due later; the run was being advanced.
#[tokio::test]
async fn a_run_that_was_being_advanced_is_taken_over_whatever_it_is_due_for() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    for name in ["running", "waiting"] {
        table.run(name, Some("first"), 0).await;
        let due = format!(
            "INSERT INTO due SELECT shard, id, {}, code, 1, false FROM runs WHERE id = '{name}'",
            micros(5_000)
        );
        table.client.batch_execute(&due).await.unwrap();
    }
    table.client.batch_execute("UPDATE runs SET status = 2 WHERE id = 'waiting'").await.unwrap();
    let leases = table.database.claim(&takeover("w", 50, "first", 0)).await.unwrap();
    assert_eq!(names(&leases), ["running"]);
}

/// Takes the runs of `first` over in a transaction that is still open.
async fn take_over_in(client: &tokio_postgres::Client) -> usize {
    let codes = vec![super::code("flow").as_str().to_owned()];
    let (workers, renewals) = (vec!["first"], vec![0_i64]);
    let all: Option<Vec<&str>> = None;
    let params: [Param<'_>; 9] =
        [&"w", &"claim:open", &workers, &renewals, &codes, &micros(50), &10_i64, &true, &all];
    client.query(CLAIM_TAKEN_OVER.as_str(), &params).await.unwrap().len()
}

#[tokio::test]
async fn a_renewal_waits_for_a_claim_and_learns_what_it_took() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("run", Some("first"), 0).await;
    let claim = table.begin().await;
    assert_eq!(take_over_in(&claim).await, 1);
    let renewal = {
        let database = table.database.clone();
        tokio::spawn(async move { database.renew(&worker("first"), LEASE, &[]).await.unwrap() })
    };
    table.until_blocked(1).await;
    claim.batch_execute("COMMIT").await.unwrap();
    let lost = LostRun { run: run_id("run"), epoch: 1 };
    assert_eq!(renewal.await.unwrap(), std::slice::from_ref(&lost));
    assert_eq!(table.database.renew(&worker("first"), LEASE, &[lost]).await.unwrap(), []);
}

#[tokio::test]
async fn a_worker_that_retires_frees_no_run_that_another_one_takes() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    for name in ["a", "b"] {
        table.run(name, Some("first"), 0).await;
    }
    let claim = table.begin().await;
    assert_eq!(take_over_in(&claim).await, 2);
    let retired = {
        let database = table.database.clone();
        tokio::spawn(async move { database.retire(&worker("first")).await.unwrap() })
    };
    table.until_blocked(1).await;
    claim.batch_execute("COMMIT").await.unwrap();
    retired.await.unwrap();
    assert_eq!(table.number("SELECT count(*) FROM runs WHERE owner = 'w' AND epoch = 2").await, 2);
    assert_eq!(table.number("SELECT count(*) FROM due").await, 0, "they are held");
}

/// A standby was promoted that did not have the claim of the first worker, and the second one got its epoch.
#[tokio::test]
async fn a_release_frees_nothing_that_another_worker_holds_in_the_same_epoch() {
    let table = Table::lay().await;
    table.run("run", Some("second"), 0).await;
    table.database.release(&worker("first"), &run_id("run"), 1, at(9)).await.unwrap();
    let record = table.database.run_record(&run_id("run")).await.unwrap().unwrap();
    assert_eq!((record.owner, record.epoch), (Some(worker("second")), 1));
    assert_eq!(table.number("SELECT count(*) FROM due").await, 0);
    table.database.release(&worker("second"), &run_id("run"), 1, at(9)).await.unwrap();
    assert_eq!(table.database.run_record(&run_id("run")).await.unwrap().unwrap().owner, None);
}

#[tokio::test]
async fn a_stale_release_that_waited_for_a_claim_frees_nothing() {
    let table = Table::lay().await;
    table.database.register(&worker("first"), LEASE, &[]).await.unwrap();
    table.run("run", Some("first"), 0).await;
    let claim = table.begin().await;
    assert_eq!(take_over_in(&claim).await, 1);
    let released = {
        let database = table.database.clone();
        tokio::spawn(
            async move { database.release(&worker("first"), &run_id("run"), 1, at(9)).await.unwrap() },
        )
    };
    table.until_blocked(1).await;
    claim.batch_execute("COMMIT").await.unwrap();
    released.await.unwrap();
    let record = table.database.run_record(&run_id("run")).await.unwrap().unwrap();
    assert_eq!((record.owner, record.epoch), (Some(worker("w")), 2));
}

#[tokio::test]
async fn rows_that_nothing_needs_are_deleted_and_no_others() {
    let table = Table::lay().await;
    for name in ["ended", "parked", "held", "gone"] {
        table.run(name, None, 1).await;
    }
    let changes =
        "UPDATE runs SET status = 3 WHERE id = 'ended'; UPDATE runs SET parked = true WHERE id = 'parked';
        UPDATE runs SET owner = 'v' WHERE id = 'held'; DELETE FROM runs WHERE id = 'gone'";
    table.client.batch_execute(changes).await.unwrap();
    assert_eq!(table.database.next_wake().await.unwrap(), None);
    assert_eq!(names(&table.database.claim(&request("w", 100)).await.unwrap()), [""; 0]);
    assert_eq!(table.number("SELECT count(*) FROM due WHERE run = 'held'").await, 1);
    assert_eq!(table.number("SELECT count(*) FROM due").await, 1);
}

#[tokio::test]
async fn a_due_row_under_a_former_code_is_put_right() {
    let table = Table::lay().await;
    table.run("run", None, 1).await;
    table.client.batch_execute("UPDATE due SET code = 'a former code'").await.unwrap();
    assert_eq!(names(&table.database.claim(&request("w", 100)).await.unwrap()), [""; 0]);
    let query = aether_core::store::ForeignRuns {
        codes: vec![super::code("flow")],
        due: Some((at(100), Vec::new())),
        after: None,
        limit: 10,
    };
    assert_eq!(table.database.foreign(&query).await.unwrap(), []);
    assert_eq!(names(&table.database.claim(&request("w", 100)).await.unwrap()), ["run"]);
}

/// Pages of very many due runs of other code are found by another way than pages of few: with the same answers.
#[tokio::test]
async fn pages_of_very_many_due_runs_of_other_code_hold_each_of_them_once() {
    let table = Table::lay().await;
    let made = "INSERT INTO runs(shard, id, place, workflow, version, code, parked, status, digest, created_at, labels, epoch)
        SELECT n % 4096, 'run' || n, n * 10, 'flow', 3, CASE WHEN n % 3 = 0 THEN 'a' ELSE 'b' END, n % 7 = 0, 0,
            repeat('0', 64), 1, '{}', 0 FROM generate_series(1, 25000) AS n;
        INSERT INTO journal SELECT shard, id, 0, 0, 1, 1, 0, false, '[]', decode(repeat('00', 32), 'hex') FROM runs;
        INSERT INTO due SELECT shard, id, CASE WHEN place % 50 = 0 THEN 9 ELSE 5 END, code, 0, false FROM runs
        WHERE place % 30 <> 10";
    table.client.batch_execute(made).await.unwrap();
    let digest = serde_json::to_value(aether_core::payload::Digest::of(&Payload::null()).unwrap()).unwrap();
    let set = "UPDATE runs SET digest = $1::text";
    table.client.execute(set, &[&digest.as_str().unwrap()]).await.unwrap();
    for (now, codes) in [(5, vec![]), (9, vec![]), (9, vec!["a"])] {
        let codes: Vec<_> = codes.into_iter().map(|code: &str| CodeId::from(code.to_owned())).collect();
        let mut query = ForeignRuns {
            codes,
            due: Some((Timestamp::from_microsecond(now).unwrap(), Vec::new())),
            after: None,
            limit: 4000,
        };
        let mut found: Vec<i64> = Vec::new();
        loop {
            let page = table.database.foreign(&query).await.unwrap();
            found.extend(page.iter().map(|run| i64::try_from(run.place.number()).unwrap()));
            let is_last = page.len() < query.limit;
            query.after = page.last().map(|last| last.place).or(query.after);
            if is_last {
                break;
            }
        }
        let of = if query.codes.is_empty() { "" } else { "AND r.code = 'b'" };
        let wanted = format!(
            "SELECT r.place FROM runs r JOIN due d ON d.run = r.id WHERE NOT r.parked AND d.wake_at <= {now} {of}
            ORDER BY r.place"
        );
        let wanted = table.client.query(&wanted, &[]).await.unwrap();
        let wanted: Vec<i64> = wanted.iter().map(|row| row.get(0)).collect();
        assert!(wanted.len() > 5000);
        assert!(found == wanted, "due at {now}: {} of {}", found.len(), wanted.len());
    }
}
