//! Recordings: exporting, masking, loading, and replaying them against today's code. `tests/recordings` holds those of
//! examples; `AETHER_RECORD=1` writes them anew.

use std::path::{Path, PathBuf};

use aether::llm::{ChatMessage, ChatRequest, ChatResponse, ModelClient, ModelError, ToolCall};
use aether::prelude::*;
use aether::recording::{Masking, Recording, RecordingError};
use aether::sqlite::SqliteStore;
use aether::store::{MemoryStore, Store};
use aether_testing::recordings::{RecordingFailure, assert_fixture, verify_all};
use aether_testing::verify_recordings;
use std::sync::Arc;

#[path = "../../examples/02_steps_and_effects.rs"]
#[allow(dead_code)]
mod steps_and_effects;

#[path = "../../examples/07_sub_workflows_and_child_runs.rs"]
#[allow(dead_code)]
mod child_runs;

#[path = "../../examples/09_model_and_agent.rs"]
#[allow(dead_code)]
mod model_and_agent;

/// Runs a workflow of an example, whose own items cannot be named here, and records it.
async fn record(engine: &Engine, workflow: &str, input: &str) -> Recording {
    let digest =
        aether::effect::Digest::of(&aether::effect::Payload::from_text(input.into()).unwrap()).unwrap();
    let text = format!(
        r#"{{"format":"aether-recording","version":1,"runs":[{{"run":"{workflow}","frames":[{{"at":"2026-01-01T00:00:00Z","events":[
        {{"run_created":{{"workflow":"{workflow}","version":1,"fingerprint":"","input":{input},"digest":"{digest}","seed":"00"}}}}]}}]}}]}}"#
    );
    engine.import(&Recording::parse(&text).unwrap()).await.unwrap();
    let run = engine.find(workflow).await.unwrap();
    assert!(run.advance().await.unwrap());
    assert!(matches!(run.end().await.unwrap(), aether::engine::RunEnd::Completed(_)));
    engine.export(run.id()).await.unwrap()
}

/// Asks for the weather, books, and is done.
#[derive(Debug)]
struct Planner;

impl ModelClient for Planner {
    fn chat(
        &self,
        request: ChatRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + '_>> {
        let call = |name: &str, arguments: &str| ChatResponse {
            tool_calls: vec![ToolCall { id: name.into(), name: name.into(), arguments: arguments.into() }],
            ..ChatResponse::default()
        };
        let say = |text: &str| ChatResponse { content: Some(text.into()), ..ChatResponse::default() };
        let answer = match request.messages.last() {
            _ if request.call == "plan" => say(r#"{"city":"Vienna"}"#),
            Some(ChatMessage::Tool { name, .. }) if name == "weather" => {
                call("book_table", r#"{"people":2}"#)
            }
            Some(ChatMessage::Tool { .. }) => say("A table for two is booked."),
            _ => call("weather", r#"{"city":"Vienna"}"#),
        };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

#[tokio::test]
async fn the_fixtures_of_the_examples_are_up_to_date() {
    let engine = Engine::builder().memory().model(Planner).start().await.unwrap();
    let examples = [
        ("buy", r#"{"order":{"item":"tea","count":3}}"#),
        ("book", r#"{"preface":"A few words","chapters":["It was a dark night","Then came the sun"]}"#),
        ("evening", r#"{"wish":"Dinner where Mozart lived"}"#),
    ];
    for (workflow, input) in examples {
        let recording = record(&engine, workflow, input).await;
        assert_fixture(&recording, format!("tests/recordings/{workflow}.json"));
    }
}

verify_recordings!(fn todays_code_fits_every_recording_of_the_folder, "tests/recordings/*.json");

#[test]
fn todays_code_fits_the_recorded_examples() {
    let report = verify_recordings!("tests/recordings/*.json");
    assert_eq!(report.files.len(), 3);
    let book = report.files[0].outcome.as_ref().unwrap();
    assert!(report.files[0].path.ends_with("book.json"));
    assert_eq!((book.runs, book.recorded, book.matched), (3, 14, 14));
}

fn text_of(recording: &Recording, folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    recording.write(&path).unwrap();
    path
}

mod then {
    use aether::prelude::*;

    #[step(effect = "read")]
    pub(super) async fn weigh(_cx: &mut StepCx, parcel: &str) -> Result<usize> {
        Ok(parcel.len())
    }

    #[step(effect = "tool")]
    pub(super) async fn send(_cx: &mut StepCx, weight: usize) -> Result<String> {
        Ok(format!("sent {weight}"))
    }

    #[workflow]
    pub(super) async fn ship(cx: &mut Cx, parcel: String) -> Result<String> {
        let at = cx.now().await;
        let weight = weigh(cx, &parcel).await?;
        let sent = send(cx, weight).await?;
        Ok(format!("{sent} at {at}"))
    }
}

mod now {
    use super::then::{send, weigh};
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn ship(cx: &mut Cx, parcel: String) -> Result<String> {
        let at = cx.now().await;
        let weight = weigh(cx, &parcel).await?;
        let sent = send(cx, weight + 1).await?;
        Ok(format!("{sent} at {at}"))
    }
}

/// Another order, which a recorded clock reading is the first to notice.
mod later {
    use super::then::{send, weigh};
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn ship(cx: &mut Cx, parcel: String) -> Result<String> {
        let weight = weigh(cx, &parcel).await?;
        let at = cx.now().await;
        let sent = send(cx, weight).await?;
        Ok(format!("{sent} at {at}"))
    }
}

async fn shipped() -> Recording {
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<then::ship>("a parcel".to_owned()).id("ship").await.unwrap();
    run.result().await.unwrap();
    engine.export(run.id()).await.unwrap()
}

/// The recording, as if the code of another module had once been this.
fn of_module(recording: &Recording, module: &str) -> Recording {
    Recording::parse(&recording.to_text().replace("recordings::then", module)).unwrap()
}

#[tokio::test]
async fn a_divergence_names_what_was_recorded_and_what_today_asks_for_with_both_lines() {
    let folder = tempfile::tempdir().unwrap();
    let recording = shipped().await;
    text_of(&recording, folder.path(), "good.json");
    text_of(&of_module(&recording, "recordings::now"), folder.path(), "now.json");
    text_of(&of_module(&recording, "recordings::later"), folder.path(), "later.json");
    let report = verify_all(&format!("{}/*.json", folder.path().display()));
    assert!(!report.is_good());
    let said = report.to_string();
    assert!(said.contains("good.json: 3 of 3 recorded matched, 1 run(s)"), "{said}");
    let failures: Vec<_> = report.failures().collect();
    let [(_, later), (_, now)] = failures.as_slice() else { panic!("{said}") };
    let RecordingFailure::Diverged { recorded, today, workflow, .. } = now else { panic!("{now}") };
    assert!(
        recorded.contains("`2:send`")
            && recorded.contains(&line_of("let sent = send(cx, weight).await?;", 0)),
        "{now}"
    );
    assert!(today.contains("`2:send`") && today.contains(&line_of("send(cx, weight + 1)", 0)), "{now}");
    assert!(workflow.contains("changed since"), "{now}");
    let RecordingFailure::Diverged { recorded, today, .. } = later else { panic!("{later}") };
    assert!(recorded.contains("`0:now`"), "{later}");
    assert!(
        today.contains("`0:weigh`") && today.contains(&line_of("weigh(cx, &parcel).await?", 2)),
        "{later}"
    );
}

/// Every parcel.
mod every {
    use super::then::weigh;
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn weigh_all(cx: &mut Cx, parcels: Vec<String>) -> Result<usize> {
        let weights =
            cx.each(parcels, async |cx: &mut Cx, parcel: String| weigh(cx, &parcel).await).limit(2).await;
        weights.into_iter().try_fold(0, |sum, weight| Ok(sum + weight?))
    }
}

/// The first parcel.
mod first {
    use super::then::weigh;
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn weigh_all(cx: &mut Cx, parcels: Vec<String>) -> Result<usize> {
        let parcels: Vec<String> = parcels.into_iter().take(1).collect();
        let weights =
            cx.each(parcels, async |cx: &mut Cx, parcel: String| weigh(cx, &parcel).await).limit(2).await;
        weights.into_iter().try_fold(0, |sum, weight| Ok(sum + weight?))
    }
}

/// What history holds of items that the list no longer has is waited for by nobody.
#[tokio::test]
async fn a_list_that_became_shorter_is_a_divergence_and_no_endless_replay() {
    let engine = Engine::builder().memory().start().await.unwrap();
    let parcels = ["a", "parcel", "more"].map(str::to_owned).to_vec();
    let run = engine.start::<every::weigh_all>(parcels).id("weigh").await.unwrap();
    run.result().await.unwrap();
    let text = engine.export(run.id()).await.unwrap().to_text();
    let shorter = Recording::parse(&text.replace("recordings::every", "recordings::first")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    text_of(&shorter, folder.path(), "shorter.json");
    let report = verify_all(&format!("{}/*.json", folder.path().display()));
    let failures: Vec<_> = report.failures().collect();
    let [(_, RecordingFailure::Diverged { recorded, .. })] = failures.as_slice() else { panic!("{report}") };
    assert!(recorded.contains("weigh"), "{report}");
}

/// `file:line` of the occurrence of this number (from 0) of `code` in this file.
fn line_of(code: &str, number: usize) -> String {
    let mut lines = include_str!("recordings.rs").lines().enumerate().filter(|(_, line)| line.contains(code));
    format!("tests/it/recordings.rs:{}", lines.nth(number).unwrap().0 + 1)
}

#[tokio::test]
async fn a_match_that_says_nothing_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = format!("{}/*.json", folder.path().display());
    let none = verify_all(&pattern);
    assert!(!none.is_good());
    assert!(none.to_string().contains("no file fits"), "{none}");

    let text = shipped().await.to_text();
    std::fs::write(folder.path().join("a_damaged.json"), &text[..text.len() / 2]).unwrap();
    let unknown = text.replace("\"workflow\":\"ship\"", "\"workflow\":\"sail\"");
    std::fs::write(folder.path().join("b_unknown.json"), unknown).unwrap();
    let created =
        text.lines().find(|line| line.starts_with("{\"run_created\"")).unwrap().trim_end_matches(',');
    let empty = format!(
        "{{\"format\":\"aether-recording\",\"version\":1,\"runs\":[{{\"run\":\"e\",\"frames\":[{{\"at\":\"2026-01-01T00:00:00Z\",\"events\":[{created}]}}]}}]}}"
    );
    std::fs::write(folder.path().join("c_empty.json"), empty).unwrap();
    let report = verify_all(&pattern);
    let failures: Vec<_> = report.failures().map(|(_, failure)| failure.clone()).collect();
    assert!(
        matches!(failures[0], RecordingFailure::Recording(RecordingError::NotARecording { .. })),
        "{report}"
    );
    assert!(
        matches!(&failures[1], RecordingFailure::NotLinked { workflow, .. } if workflow == "sail"),
        "{report}"
    );
    assert_eq!(failures[2], RecordingFailure::Vacuous, "{report}");
}

#[test]
#[should_panic(expected = "recordings do not fit today's code")]
fn the_macro_fails_without_files() {
    let _never = verify_recordings!("tests/recordings/*.nothing");
}

/// The whole of what a run left, over both stores.
#[tokio::test]
async fn a_recording_is_the_same_after_a_journey_through_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let file = SqliteStore::open(folder.path().join("a.db")).unwrap();
    let engine = Engine::builder().store(Arc::new(file)).start().await.unwrap();
    let hash = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"; // of "x"
    engine.store().put_blob(&"keep".parse().unwrap(), hash, b"x".to_vec()).await.unwrap();
    let run = engine.start::<keep>(hash.to_owned()).id("keep").await.unwrap();
    run.result().await.unwrap();
    let first = engine.export(run.id()).await.unwrap();
    assert_eq!(first.blobs().get(hash).map(Vec::as_slice), Some(&b"x"[..]));
    assert_eq!(first.runs().iter().map(|run| run.ledger.len()).collect::<Vec<_>>(), [1, 1]);

    let stores: [Arc<dyn Store>; 2] =
        [Arc::new(MemoryStore::new()), Arc::new(SqliteStore::open(folder.path().join("b.db")).unwrap())];
    for store in stores {
        let other = Engine::builder().store(store).start().await.unwrap();
        let read = Recording::parse(&first.to_text()).unwrap();
        let ids = other.import(&read).await.unwrap();
        assert_eq!(ids.len(), 2);
        let again = other.export(run.id()).await.unwrap();
        assert_eq!(again.to_text(), first.to_text());
        assert_eq!(other.verify(&ids[0]).await.unwrap().matched, 2);
        let error = other.import(&read).await.unwrap_err();
        assert!(matches!(error, RecordingError::Exists { .. }), "{error}");
        assert_eq!(other.handle::<keep>("keep").await.unwrap().result().await.unwrap(), "kept");
    }
    let error = engine.export(&"nobody".parse().unwrap()).await.unwrap_err();
    assert!(error.to_string().contains("there is no run `nobody`"), "{error}");
}

#[step(effect = "tool")]
async fn put(_cx: &mut StepCx, what: &str) -> Result<String> {
    Ok(what.to_owned())
}

#[workflow]
async fn keep_one(cx: &mut Cx, what: String) -> Result<String> {
    Ok(put(cx, &what).await?)
}

#[workflow]
async fn keep(cx: &mut Cx, what: String) -> Result<String> {
    put(cx, &what).await?;
    cx.child::<keep_one>(what).await?;
    Ok("kept".into())
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Login {
    user: String,
    password: String,
    device: String,
}

#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Session {
    access_token: uuid::Uuid,
    greeting: String,
}

#[step(effect = "tool")]
async fn log_in(_cx: &mut StepCx, user: &str, pass_phrase: &str) -> Result<Session> {
    let access_token = "f47ac10b-58cc-4372-a567-0e02b2c3d479".parse()?;
    Ok(Session { access_token, greeting: format!("hello {user} ({pass_phrase})") })
}

#[step(effect = "tool", irreversible)]
async fn open_door(_cx: &mut StepCx, _session: uuid::Uuid, note: &str) -> Result<String> {
    Ok(note.to_owned())
}

#[workflow]
async fn enter(cx: &mut Cx, login: Login) -> Result<String> {
    let session = log_in(cx, &login.user, &login.password).await?;
    let note = format!("{} from {}", session.greeting, login.device);
    Ok(open_door(cx, session.access_token, &note).await?)
}

const SECRETS: [&str; 3] = ["correct \\\"horse", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "device-7"];

#[tokio::test]
async fn masked_secrets_are_gone_and_the_recording_still_matches() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::builder().memory().start().await.unwrap();
    let login = Login { user: "ada".into(), password: "correct \"horse".into(), device: "device-7".into() };
    let run = engine.start::<enter>(login).id("enter").await.unwrap();
    run.result().await.unwrap();
    let open = engine.export_with(run.id(), &Masking::off()).await.unwrap().to_text();
    let masking = Masking::standard().rule(|_, value| value == "device-7");
    let recording = engine.export_with(run.id(), &masking).await.unwrap();
    let text = recording.to_text();
    for secret in SECRETS {
        assert!(open.contains(secret), "{secret} should be in:\n{open}");
        assert!(!text.contains(secret), "{secret} is still in:\n{text}");
    }
    assert_eq!(recording.masked(), 3);
    assert!(text.contains("hello ada (masked-"), "{text}");
    text_of(&recording, folder.path(), "enter.json");
    let report = verify_all(&format!("{}/*.json", folder.path().display()));
    assert!(report.is_good(), "{report}");
    assert_eq!(report.recorded(), 2);
    // A recording of what was masked is masked already.
    let other = Engine::builder().memory().start().await.unwrap();
    other.import(&recording).await.unwrap();
    assert_eq!(other.export(run.id()).await.unwrap().runs(), recording.runs());
}

#[workflow]
async fn patient(cx: &mut Cx) -> Result<String> {
    let name = put(cx, "name").await?;
    let signal: String = cx.signal("go").await?;
    Ok(format!("{name} {signal}"))
}

#[tokio::test]
async fn an_open_run_is_recorded_as_far_as_it_came_and_goes_on_elsewhere_when_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::builder().memory().eviction_grace(std::time::Duration::ZERO).start().await.unwrap();
    let run = engine.start::<patient>(()).id("patient").await.unwrap();
    while run.status().await.unwrap() != aether::view::Status::Waiting {
        tokio::task::yield_now().await;
    }
    let recording = engine.export(run.id()).await.unwrap();
    text_of(&recording, folder.path(), "patient.json");
    let report = verify_all(&format!("{}/*.json", folder.path().display()));
    assert_eq!(report.recorded(), 1, "{report}");

    let other = Engine::builder().memory().start().await.unwrap();
    other.import(&recording).await.unwrap();
    let there = other.handle::<patient>("patient").await.unwrap();
    other.signal(there.id(), "go", "first", &"on").await.unwrap();
    assert_eq!(there.result().await.unwrap(), "name on");
}

mod played {
    use std::time::Duration;

    use aether::prelude::*;

    #[step(effect = "read")]
    pub(super) async fn ask_price(_cx: &mut StepCx, item: &str) -> Result<u32> {
        if item == "gold" { Err(Failure::permanent("not for sale")) } else { Ok(7) }
    }

    #[step(effect = "read")]
    pub(super) async fn slow(_cx: &mut StepCx) -> Result<u32> {
        std::future::pending().await
    }

    #[step(effect = "tool")]
    pub(super) async fn pay(cx: &mut StepCx, amount: u32) -> Result<String> {
        Ok(format!("paid {amount} {}", cx.uuid()))
    }

    #[workflow]
    pub(super) async fn part(cx: &mut Cx, amount: u32) -> Result<String> {
        Ok(pay(cx, amount).await?)
    }

    #[workflow]
    pub(super) async fn purchase(cx: &mut Cx, item: String) -> Result<String> {
        let (at, id, number) = (cx.now().await, cx.uuid().await, cx.random().await);
        let no = ask_price(cx, "gold").await.unwrap_err();
        let raced = cx
            .race((
                async |cx: &mut Cx| slow(cx).await,
                async |cx: &mut Cx| {
                    cx.sleep(Duration::from_millis(5)).await;
                    Ok(3)
                },
            ))
            .await?;
        let price = ask_price(cx, &item).await?;
        let paid = cx.child::<part>(price + raced).await?;
        let go: String = cx.signal("go").await?;
        Ok(format!("{at} {id} {number} {no} {paid} {go}"))
    }

    /// The same, paying more than was recorded.
    #[workflow]
    pub(super) async fn splurge(cx: &mut Cx, item: String) -> Result<String> {
        let (_at, _id, _number) = (cx.now().await, cx.uuid().await, cx.random().await);
        let _no = ask_price(cx, "gold").await.unwrap_err();
        let price = ask_price(cx, &item).await?;
        Ok(pay(cx, price * 2).await?)
    }
}

#[tokio::test]
async fn a_simulation_is_answered_from_a_recording() {
    use aether_testing::{Sim, SimError};
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::builder().memory().start().await.unwrap();
    let run = engine.start::<played::purchase>("tea".to_owned()).id("purchase").await.unwrap();
    engine.signal(run.id(), "go", "first", &"gone").await.unwrap();
    let said = run.result().await.unwrap();
    let path = text_of(&engine.export(run.id()).await.unwrap(), folder.path(), "purchase.json");

    let (sim, item) = Sim::from_recording::<played::purchase>(&path).unwrap();
    assert_eq!(item, "tea");
    let report = sim.run(item.clone()).await;
    assert_eq!(*report.assert_completed(), said);
    report.verified.unwrap().unwrap();

    // A stub comes first.
    let (sim, _) = Sim::from_recording::<played::purchase>(&path).unwrap();
    let error = sim.stub::<played::ask_price>(|_| Err(Failure::permanent("closed"))).run(item.clone()).await;
    assert!(error.result.unwrap_err().to_string().contains("closed"));

    // Other arguments are another call.
    let (sim, _) = Sim::from_recording::<played::purchase>(&path).unwrap();
    let error = sim.try_run("coffee".into()).await.unwrap_err();
    let SimError::NotRecorded { command, what, nearest, .. } = &error else { panic!("{error}") };
    assert_eq!((command.name(), *what), ("ask_price", "was recorded with other arguments"));
    assert!(nearest.contains(r#"{"item":"tea"}"#) && nearest.contains("tests/it/recordings.rs:"), "{error}");

    // So is another command.
    let recording = Recording::read(&path).unwrap();
    let sim = Sim::new::<played::splurge>().recorded(&recording).unwrap();
    let error = sim.try_run("tea".into()).await.unwrap_err();
    let SimError::NotRecorded { command, what, nearest, .. } = &error else { panic!("{error}") };
    assert_eq!((command.as_str(), *what), ("4:ask_price", "is not recorded"));
    assert!(nearest.contains("`5:ask_price`"), "{error}");
}
