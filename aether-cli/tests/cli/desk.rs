//! The program whose runs are looked at: its workflows, and the processes in which it advances them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::prelude::*;
use aether::retention::{PurgeDecision, Retention};
use serde_json::{Value, json};

use crate::kit::until;

/// Where a child process has its store.
pub(crate) const STORE: &str = "AETHER_CLI_DESK_STORE";
/// The arguments of a child process that is the program's own command line, as JSON.
pub(crate) const ARGS: &str = "AETHER_CLI_DESK_ARGS";
/// What precedes the output of the command line in a child process, behind that of its test harness.
pub(crate) const MARK: &str = "--- the command line ---";

/// Look something up.
#[step(effect = "read")]
pub(crate) async fn look_up(_cx: &mut StepCx, n: u32) -> Result<u32> {
    Ok(n + 1)
}

/// Pay money back.
#[step(effect = "tool", irreversible, approval = "required")]
pub(crate) async fn pay_back(_cx: &mut StepCx, order: &str, cents: u64) -> Result<String> {
    Ok(format!("paid {cents} back for {order}"))
}

/// Book a room.
#[step(effect = "tool", compensate = give_back)]
pub(crate) async fn book(_cx: &mut StepCx, room: &str) -> Result<String> {
    Ok(format!("booked {room}"))
}

/// Give a room back.
#[step(effect = "tool")]
pub(crate) async fn give_back(_cx: &mut StepCx, room: &str, _booked: Option<String>) -> Result<String> {
    Ok(format!("gave {room} back"))
}

/// Never works.
#[step(effect = "tool")]
pub(crate) async fn check_in(_cx: &mut StepCx, guest: &str) -> Result<String> {
    Err(Failure::permanent(format!("there is no {guest}")))
}

/// Write a letter.
#[step(effect = "tool", changes = ["file"], confirm = "ask")]
pub(crate) async fn write_letter(cx: &mut StepCx, path: &str) -> Result<u64> {
    std::fs::write(path, "Dear Ann,").map_err(Failure::from)?;
    cx.changed_file(path)?;
    Ok(9)
}

/// Does not return, and nobody knows what it did.
#[step(effect = "tool", on_unknown = "ask")]
pub(crate) async fn launch(_cx: &mut StepCx, rocket: &str) -> Result<String> {
    std::fs::write(rocket, "ignition").map_err(Failure::from)?;
    std::future::pending().await
}

/// Speak.
#[step(effect = "read")]
pub(crate) async fn speak(cx: &mut StepCx, words: Vec<String>) -> Result<String> {
    for word in &words {
        cx.stream("reply").send(word);
    }
    Ok(words.join(" "))
}

/// Counts.
#[workflow]
pub(crate) async fn count(cx: &mut Cx, n: u32) -> Result<u32> {
    let mut sum = 0;
    for _ in 0..n {
        sum = look_up(cx, sum).await?;
    }
    Ok(sum)
}

/// Pays back when somebody agrees.
#[workflow]
pub(crate) async fn refund(cx: &mut Cx, order: String) -> Result<String> {
    Ok(pay_back(cx, &order, 9_007_199_254_740_993).await?)
}

/// Starts a child, and waits when that has ended.
#[workflow]
pub(crate) async fn family(cx: &mut Cx, n: u32) -> Result<u32> {
    let sum = cx.child::<count>(n).await?;
    cx.signal::<Value>("end").await?;
    Ok(sum)
}

/// Asks.
#[workflow]
pub(crate) async fn quiz(cx: &mut Cx, question: String) -> Result<u32> {
    Ok(cx.ask::<u32>(question).await?)
}

/// Waits for a signal.
#[workflow]
pub(crate) async fn parcel(cx: &mut Cx, _to: String) -> Result<Value> {
    Ok(cx.signal::<Value>("paid").await?)
}

/// Books, and then fails.
#[workflow]
pub(crate) async fn stay(cx: &mut Cx, guest: String) -> Result<String> {
    book(cx, "17").await?;
    Ok(check_in(cx, &guest).await?)
}

/// Waits for nothing but time.
#[workflow]
pub(crate) async fn nap(cx: &mut Cx, _why: String) -> Result<()> {
    cx.sleep(Duration::from_secs(3600)).await;
    Ok(())
}

/// Does something of which nobody knows the end, when it is killed.
#[workflow]
pub(crate) async fn voyage(cx: &mut Cx, rocket: String) -> Result<String> {
    Ok(launch(cx, &rocket).await?)
}

/// Writes a letter, and sends it when it is told to.
#[workflow]
pub(crate) async fn letter(cx: &mut Cx, path: String) -> Result<u64> {
    let length = write_letter(cx, &path).await?;
    cx.signal::<Value>("send").await?;
    Ok(length)
}

/// Says something while it runs.
#[workflow]
pub(crate) async fn talk(cx: &mut Cx, words: Vec<String>) -> Result<String> {
    Ok(speak(cx, words).await?)
}

/// The program's engine, on a file.
pub(crate) fn builder(db: &Path) -> aether::engine::EngineBuilder {
    let kept = |run: &aether::retention::PurgeCandidate| run.record().id.as_str().starts_with("kept-");
    let retention = Retention::new().before_purge(move |run| async move {
        if kept(&run) { PurgeDecision::Keep } else { PurgeDecision::Delete }
    });
    let builder = Engine::builder().sqlite(db).retention(retention);
    builder.poll_interval(Duration::from_millis(20)).eviction_grace(Duration::ZERO)
}

/// A process that advances the runs of a file.
pub(crate) struct Worker(Child);

impl Worker {
    /// Starts it, and waits until it is there.
    pub(crate) fn start(db: &Path) -> Self {
        let child = this_test("desk::serves").env(STORE, db).stdout(Stdio::null()).spawn().unwrap();
        Self(child)
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _it_may_be_over = self.0.kill();
        let _it_may_be_over = self.0.wait();
    }
}

/// This program again, for one of its tests.
pub(crate) fn this_test(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture"]);
    command
}

/// Advances runs where a test started this program for that, until it is killed; otherwise there is nothing to do.
#[tokio::test(flavor = "multi_thread")]
async fn serves() {
    let Some(db) = std::env::var_os(STORE) else { return };
    let _engine = builder(Path::new(&db)).start().await.unwrap();
    std::future::pending().await
}

/// Is the program's own command line where a test started this program for that; otherwise there is nothing to do.
#[tokio::test]
async fn is_a_command_line() {
    let Some(args) = std::env::var_os(ARGS) else { return };
    let db = std::env::var_os(STORE).unwrap();
    let args: Vec<String> = serde_json::from_str(args.to_str().unwrap()).unwrap();
    println!("\n{MARK}");
    let exit = aether::cli::run(builder(Path::new(&db)), args.into_iter().map(Into::into)).await;
    let number = (0..=u8::MAX).find(|number| std::process::ExitCode::from(*number) == exit).unwrap();
    std::process::exit(number.into());
}

/// One run of each kind, in the state in which somebody looks at it. The rocket's process was killed.
pub(crate) async fn one_of_each(db: &Path, folder: &Path) {
    let engine = builder(db).start().await.unwrap();
    engine.start::<count>(3).id("count-1").label("customer", "acme").await.unwrap().result().await.unwrap();
    engine.start::<refund>("order-7".into()).id("refund-1").await.unwrap();
    engine.start::<refund>("order-8".into()).id("refund-2").await.unwrap();
    engine.start::<quiz>("How many are you?".into()).id("quiz-1").await.unwrap();
    engine.start::<parcel>("Ann".into()).id("parcel-1").await.unwrap();
    engine.start::<nap>("tired".into()).id("nap-1").await.unwrap();
    engine.start::<stay>("Bob".into()).id("stay-1").await.unwrap().result().await.unwrap_err();
    let words = ["Hello", "there"].map(String::from).to_vec();
    engine.start::<talk>(words).id("talk-1").await.unwrap().result().await.unwrap();
    waits(&engine, "refund-1").await;
    waits(&engine, "refund-2").await;
    waits(&engine, "quiz-1").await;
    waits(&engine, "parcel-1").await;
    waits(&engine, "nap-1").await;
    let path = folder.join("letter");
    engine.start::<letter>(path.to_str().unwrap().into()).id("letter-1").await.unwrap();
    waits(&engine, "letter-1").await;
    engine.shutdown().await.unwrap();
    std::fs::write(path, "Dear Eve,").unwrap();
    launched(db, &folder.join("rocket"), "voyage-1").await;
}

/// A run whose call was in flight when its process was killed.
pub(crate) async fn launched(db: &Path, rocket: &Path, run: &str) {
    let client = builder(db).client().start().await.unwrap();
    client.start::<voyage>(rocket.to_str().unwrap().into()).id(run).await.unwrap();
    let worker = Worker::start(db);
    until(|| rocket.exists()).await;
    worker.kill();
    client.shutdown().await.unwrap();
}

/// Waits until a run waits, and nobody holds it.
pub(crate) async fn waits(engine: &Engine, run: &str) {
    let id = aether::id::RunId::new(run).unwrap();
    for _ in 0..6_000 {
        let record = engine.store().run(&id).await.unwrap().unwrap();
        if record.status == aether::view::Status::Waiting && record.owner.is_none() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{run} never waited");
}

/// What the calls of the story left.
pub(crate) fn edited() -> Value {
    json!({ "order": "order-7", "cents": 5 })
}
