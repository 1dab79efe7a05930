//! What holds of every store and of one file: rows 15, 52, 53 and 101.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aether::engine::{Environment, SystemEnvironment};
use aether::prelude::*;
use aether::sqlite::SqliteStore;
use aether::store::MemoryStore;
use aether::store::event::Event;
use aether::store::journal::Frame;
use aether::view::Purpose;
use aether::view::Status;
use aether_testing::conformance::Fixture;
use jiff::Timestamp;

use super::chain::{links, look, recorded, result_of, seed_chain};
use super::everything::{Outside, seed_everything};
use super::kit::{Calls, Journal, Place, Rows, builder, in_time, run_id, stores};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A world whose clock can be put forward.
#[derive(Clone, Debug, Default)]
struct Calendar(Arc<AtomicI64>);

impl Calendar {
    fn pass(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_micros()).unwrap(), Ordering::SeqCst);
    }
}

impl Environment for Calendar {
    fn now(&self) -> Timestamp {
        let now = SystemEnvironment.now().as_microsecond() + self.0.load(Ordering::SeqCst);
        Timestamp::from_microsecond(now).unwrap()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        SystemEnvironment.fill_random(bytes);
    }

    fn sleep_until(&self, until: Timestamp) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let calendar = self.clone();
        Box::pin(async move {
            while calendar.now() < until {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
    }
}

/// Look once a day.
#[workflow]
async fn seed_month(cx: &mut Cx, days: u32) -> Result<u32> {
    for day in 0..days {
        cx.sleep(DAY).await;
        look(cx, day).await?;
    }
    Ok(days)
}

#[tokio::test]
async fn s015_a_run_of_thirty_days_across_restarts_completes_and_its_trace_lists_every_step() {
    for place in stores() {
        let (place, calls, calendar) = (place(), Calls::default(), Calendar::default());
        let engine = || {
            Engine::builder()
                .environment(Arc::new(calendar.clone()))
                .store(place.again())
                .provide(calls.clone())
                .poll_interval(Duration::from_millis(5))
                .eviction_grace(Duration::from_millis(1))
        };
        let began = calendar.now();
        let first = engine().start().await.unwrap();
        first.start::<seed_month>(30).id("month").await.unwrap();
        first.shutdown().await.unwrap();
        for day in 1..=30 {
            calendar.pass(DAY);
            let engine = engine().start().await.unwrap();
            in_time(async {
                while calls.of("look") < day {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
            .await;
            if day == 30 {
                let run = engine.handle::<seed_month>("month").await.unwrap();
                assert_eq!(in_time(run.result()).await.unwrap(), 30);
            }
            engine.shutdown().await.unwrap();
        }
        assert_eq!(calls.of("look"), 30);
        let engine = engine().start().await.unwrap();
        let trace = engine.trace(&run_id("month")).await.unwrap();
        for (number, name) in (0..60).map(|number| (number, if number % 2 == 0 { "sleep" } else { "look" })) {
            let contract = format!("{number}:{name}#0");
            let told: Vec<_> = trace
                .entries
                .iter()
                .filter(|e| e.contract.as_ref().is_some_and(|c| c.as_str() == contract))
                .collect();
            assert_eq!(told.first().and_then(|entry| entry.from), None);
            let last = told.last().unwrap_or_else(|| panic!("{contract} is missing:\n{trace}"));
            assert_eq!(last.to, Status::Completed, "{contract}");
            let day = i64::from(number / 2 + 1);
            let passed = last.moment.at.duration_since(began).as_secs();
            assert!((day * 86_400..day * 86_400 + 3_600).contains(&passed), "{contract} after {passed} s");
        }
        assert_eq!(trace.status, Status::Completed);
        engine.verify(&run_id("month")).await.unwrap();
    }
}

/// Ask a person, and wait for a word.
#[workflow]
async fn seed_people(cx: &mut Cx) -> Result<(String, u32)> {
    let said: String = cx.ask("how much?").await?;
    Ok((said, cx.signal("amount").await?))
}

/// Gives a run of [`seed_people`] what it waits for, as soon as it asks.
async fn reply(engine: &Engine, run: &aether::id::RunId, answer: &str, amount: usize) {
    let question = aether::id::CommandId::new("0", "ask");
    in_time(async {
        while engine.answer(run, &question, &answer, "Ann").await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    engine.signal(run, "amount", "1", &amount).await.unwrap();
}

#[tokio::test]
async fn s052_records_of_every_kind_round_trip() {
    for place in stores() {
        let (place, outside) = (place(), Outside::new().await);
        let (engine, everything, journal) = outside.run(&place).await;
        let people = builder(&place.store, &outside.calls).start().await.unwrap();
        let run = people.start::<seed_people>(()).id("people").await.unwrap();
        reply(&people, run.id(), "é \u{1f600} \"7\"", 7).await;
        let said = in_time(run.result()).await.unwrap();
        assert_eq!(said, ("é \u{1f600} \"7\"".to_owned(), 7));
        let asked = Journal::read(&place.store, "people").await;
        let mut kinds = std::collections::BTreeSet::new();
        for (run, journal) in [("all", &journal), ("people", &asked)] {
            for frame in place.store.load(&run_id(run), 0).await.unwrap() {
                let events = frame.events().unwrap();
                // Behind a codec as it was before it was encoded.
                let text = frame.decoded.as_ref().unwrap_or(&frame.text);
                assert_eq!(Frame::encode(&events).unwrap().text, *text, "byte for byte");
                kinds.extend(events.iter().map(Event::kind));
            }
            // Read again, the records give the workflow what it was given.
            engine.verify(&run_id(run)).await.unwrap();
            assert_eq!(Journal::read(&place.store, run).await, *journal);
        }
        let expected = [
            "approval_decided",
            "approval_requested",
            "command_emitted",
            "http_recorded",
            "random_recorded",
            "signal_received",
            "time_recorded",
            "tool_invocation_finished",
            "uuid_recorded",
        ];
        assert!(expected.iter().all(|kind| kinds.contains(*kind)), "{kinds:?}");
        let again = engine.handle::<seed_everything>("all").await.unwrap();
        assert_eq!(in_time(again.result()).await.unwrap(), everything);
    }
}

aether_testing::store_suite!(s053_memory, async || Fixture::new(Arc::new(MemoryStore::new())));
aether_testing::store_suite!(s053_sqlite, async || {
    let folder = tempfile::tempdir().unwrap();
    Fixture::new(Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap())).keeping(folder)
});

#[test]
fn s053_both_stores_are_held_to_one_list_of_rules() {
    assert_eq!(s053_memory::RULES, s053_sqlite::RULES);
    let groups: std::collections::BTreeSet<_> =
        s053_memory::RULES.iter().filter_map(|rule| rule.split_once("::")).map(|(group, _)| group).collect();
    for group in ["appends", "faults", "inbox", "kept", "leases", "ledger", "purge", "runs"] {
        assert!(groups.contains(group), "{groups:?}");
    }
}

/// Every crash point of the chain, and runs of other kinds beside them, in one SQLite file at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn s101_all_of_it_passes_on_one_sqlite_file() {
    let (whole, place, outside) = (recorded().await, Place::sqlite(), Outside::new().await);
    let mut planted = Vec::new();
    for length in 1..whole.events.len() {
        for rows in [Rows::Follow, Rows::Absent] {
            let name = format!("chain-{length}-{rows:?}");
            whole.first(length).renamed(&name).plant(&place.store, rows).await;
            planted.push((name, length, rows));
        }
    }
    let engine = outside.builder(&place).poll_interval(Duration::from_millis(10)).start().await.unwrap();
    let (mut shifts, mut everything) = (Vec::new(), Vec::new());
    for number in 0..10 {
        shifts.push(engine.start::<seed_people>(()).id(format!("people-{number}")).await.unwrap());
        let uri = outside.server.uri();
        everything.push(engine.start::<seed_everything>(uri).id(format!("all-{number}")).await.unwrap());
    }
    for (number, run) in shifts.iter().enumerate() {
        reply(&engine, run.id(), &number.to_string(), number).await;
    }
    for (number, run) in shifts.iter().enumerate() {
        assert_eq!(in_time(run.result()).await.unwrap(), (number.to_string(), number as u32));
    }
    for run in &everything {
        in_time(run.result()).await.unwrap();
    }
    for (name, length, rows) in &planted {
        let run = engine.handle::<seed_chain>(name).await.unwrap();
        let result = in_time(run.result()).await;
        let begun = |kind: &str| whole.first(*length).kinds().iter().filter(|found| *found == kind).count();
        let in_doubt = begun("tool_invocation_started") > begun("tool_invocation_finished");
        match result {
            Ok(values) => assert!(!in_doubt && values == result_of(&whole), "{name}"),
            Err(error) => {
                assert!(in_doubt && error.to_string().contains("in doubt"), "{name}, {rows:?}: {error}")
            }
        }
        engine.verify(run.id()).await.unwrap();
        let view = engine.view(run.id()).await.unwrap();
        assert!(
            view.illegal.is_empty() && view.executions.iter().all(|e| e.purpose == Purpose::Call),
            "{name}"
        );
    }
    // Recovered runs called what was missing and nothing else; the others called everything.
    for link in links() {
        let keys = outside.calls.keys(link.body);
        let unique: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(keys.len(), unique.len(), "no key of {} was executed twice", link.name);
    }
}
