//! Every command, once: what it does, and that its JSON is what its schema says.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::desk::{Worker, builder, count, nap, one_of_each};
use crate::kit::{Desk, bare, schemas, valid};

/// Notes which commands were held against their schemas.
struct Story<'d> {
    desk: &'d Desk,
    told: BTreeSet<String>,
}

impl Story<'_> {
    #[track_caller]
    fn tell(&mut self, name: &str, args: &[&str]) -> Value {
        self.told.insert(name.into());
        self.desk.json(name, args)
    }

    /// By the program that links the workflows.
    #[track_caller]
    fn own(&mut self, name: &str, args: &[&str]) -> Value {
        self.told.insert(name.into());
        self.desk.own_json(name, args)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_does_what_it_says_and_prints_what_its_schema_says() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let mut story = Story { desk: &desk, told: BTreeSet::new() };
    reading(&mut story);
    let worker = Worker::start(&desk.db);
    deciding(&mut story);
    ending(&mut story);
    with_code(&mut story);
    queueing(&mut story).await;
    drop(worker);
    store(&mut story);
    let said = desk.cli(&["runs", "show", "nobody", "--json"]).exits(3);
    valid("error", &said.err);
    story.told.insert("error".into());
    let all: BTreeSet<_> = schemas().keys().cloned().collect();
    assert_eq!(story.told, all);
}

fn reading(story: &mut Story<'_>) {
    let list = story.tell("runs list", &["--limit", "3"]);
    assert_eq!(list["runs"][0]["id"], "voyage-1");
    assert_eq!(list["runs"][0]["hold"]["reason"], "no-worker", "its process was killed");
    let rest = story.tell("runs list", &["--after", list["next"].as_str().unwrap()]);
    assert_eq!(rest["runs"].as_array().unwrap().len(), 7);
    assert_eq!(rest["next"], Value::Null);
    let labelled = story.tell("runs list", &["--label", "customer=acme", "--status", "completed"]);
    assert_eq!(ids(&labelled), ["count-1"]);
    assert_eq!(ids(&story.tell("runs list", &["--why", "approval", "--limit", "1"])), ["refund-2"]);
    let waiting = story.tell("runs list", &["--why", "signal", "--why", "timer"]);
    assert_eq!(ids(&waiting), ["letter-1", "nap-1", "parcel-1"]);
    assert_eq!(ids(&story.tell("runs list", &["--stuck"])), ["voyage-1"]);
    assert_eq!(
        ids(&story.tell("runs list", &["--id", "und-", "--workflow", "refund", "--version", "1"])).len(),
        2
    );
    assert!(ids(&story.tell("runs list", &["--version", "2"])).is_empty());

    let run = story.tell("runs show", &["stay-1"]);
    assert_eq!((&run["run"]["status"], &run["input"]), (&json!("failed"), &json!({ "guest": "Bob" })));
    assert_eq!(run["steps"][0]["command"], "0:book");
    let history = story.tell("runs history", &["count-1", "--kind", "run_created"]);
    assert_eq!(history["events"].as_array().unwrap().len(), 1);
    assert_eq!(history["events"][0]["event"]["input"], json!({ "n": 3 }));
    let part = story.tell("runs history", &["count-1", "--from", "1", "--limit", "2"]);
    assert_eq!((&part["events"][0]["position"], &part["next"]), (&json!(1), &json!(3)));
    let end = story.tell("runs wait", &["count-1"]);
    assert_eq!(end["runs"][0]["result"], 3);
    let ledger = story.tell("ledger", &["stay-1"]);
    assert_eq!(ledger["rows"][0]["tool"], "book");
    let stream = story.desk.cli(&["streams", "tail", "talk-1", "reply", "--json"]).exits(0);
    let events: Vec<_> = stream.out.lines().map(|line| valid("streams tail", line)).collect();
    assert_eq!(events.last().unwrap(), &json!({ "event": "closed", "status": "completed" }));
    let words = events.iter().flat_map(|event| event["items"].as_array().cloned().unwrap_or_default());
    assert_eq!(words.collect::<Vec<_>>(), ["Hello", "there"]);
    story.told.insert("streams tail".into());
    let now = story.desk.cli(&["streams", "tail", "talk-1", "reply", "--no-follow"]).exits(0);
    assert!(now.out.starts_with("Hello\nthere\n"), "{}", now.out);
    let some = |more: &[&str]| {
        let command = ["streams", "tail", "talk-1", "reply", "--json"];
        story.desk.cli(&[&command, more].concat()).exits(0).out
    };
    for more in [&["--last", "0"][..], &["--last", "1"], &["--last", "9"], &["--from", "1"], &["--from", "3"]]
    {
        // All of it is there: whether it is followed makes no difference.
        assert_eq!(some(&[more, &["--no-follow"]].concat()), some(more), "{more:?}");
    }
    assert!(!some(&["--last", "0", "--no-follow"]).contains("Hello"));
    let graph = story.tell("graph", &["refund"]);
    assert_eq!(
        (&graph["known_from"], &graph["definition"]["states"][0]["name"]),
        (&json!("store"), &json!("pay_back"))
    );
    for (format, begins) in [("text", "refund v1"), ("mermaid", "flowchart TD"), ("dot", "digraph")] {
        let drawn = story.desk.cli(&["graph", "refund", "--format", format]).exits(0);
        assert!(drawn.out.starts_with(begins) && drawn.out.contains("pay_back"), "{}", drawn.out);
    }
    let waits = story.tell("inbox list", &[]);
    let names: Vec<_> =
        waits["waits"].as_array().unwrap().iter().map(|wait| wait["run"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 5, "two approvals, a question, two signals: {names:?}");
    let one = story.tell("inbox list", &["--run", "refund-1", "--kind", "approval"]);
    assert_eq!(one["waits"][0]["args"], json!({ "order": "order-7", "cents": 9_007_199_254_740_993_u64 }));
    assert_eq!(one["waits"], story.tell("inbox show", &["refund-1"])["waits"]);
}

fn deciding(story: &mut Story<'_>) {
    let seen = story.tell("inbox show", &["refund-1", "pay_back"]);
    let digest = seen["waits"][0]["digest"].as_str().unwrap();
    let done = story.tell("inbox approve", &["refund-1", "--digest", digest]);
    assert_eq!((&done["done"][0]["action"], &done["done"][0]["actor"]), (&json!("approved"), &json!("ada")));
    story.tell("inbox reject", &["refund-2", "--reason", "too much", "--actor", "bob"]);
    story.tell("inbox answer", &["quiz-1", "4"]);
    let other = story.tell("signal", &["parcel-1", "payed", "5"]);
    assert!(other["done"][0]["note"].as_str().unwrap().contains("waits for `paid` now"), "{other}");
    assert_eq!(story.tell("signal", &["parcel-1", "paid", r#"{"cents":5}"#])["done"][0]["note"], Value::Null);
    let ends = story.tell("runs wait", &["refund-1", "quiz-1", "parcel-1", "--timeout", "60s"]);
    assert_eq!(ends["runs"][0]["result"], "paid 9007199254740993 back for order-7");
    assert_eq!((&ends["runs"][1]["result"], &ends["runs"][2]["result"]), (&json!(4), &json!({ "cents": 5 })));
    let end = story.desk.cli(&["runs", "wait", "refund-2", "--json", "--timeout", "60s"]).exits(8);
    assert!(valid("runs wait", &end.out)["runs"][0]["message"].as_str().unwrap().contains("too much"));
    let decided = story.tell("runs history", &["refund-2", "--kind", "approval_decided"]);
    assert_eq!(decided["events"][0]["event"]["actor"], "bob");
    // The letter was changed by somebody else since, which is found when the run goes on.
    story.tell("signal", &["letter-1", "send"]);
    until_it_waits(story, "letter-1", "confirmation");
    story.tell("inbox confirm", &["letter-1", "--accept"]);
    assert_eq!(story.tell("runs wait", &["letter-1", "--timeout", "60s"])["runs"][0]["result"], 9);
    let confirmed = story.tell("runs history", &["letter-1", "--kind", "confirmation_decided"]);
    assert_eq!(confirmed["events"][0]["event"]["actor"], "ada");
    until_it_waits(story, "voyage-1", "in-doubt");
    story.tell("inbox resolve", &["voyage-1", "--happened", r#""it flew""#]);
    assert_eq!(story.tell("runs wait", &["voyage-1", "--timeout", "60s"])["runs"][0]["result"], "it flew");
}

/// Asks until the run is held for this reason.
fn until_it_waits(story: &mut Story<'_>, run: &str, reason: &str) {
    for _ in 0..500 {
        let shown = story.tell("runs show", &[run]);
        if shown["run"]["hold"]["reason"] == reason {
            return;
        }
    }
    panic!("{run} is not held for {reason}: {}", story.desk.cli(&["runs", "show", run]).out);
}

fn ending(story: &mut Story<'_>) {
    story.own("start", &["nap", r#"{"_why":"again"}"#, "--id", "nap-2", "--label", "why=none"]);
    story.own("start", &["nap", r#"{"_why":"again"}"#, "--id", "nap-2"]);
    assert_eq!(ids(&story.tell("runs list", &["--label", "why=none"])), ["nap-2"]);
    story.tell("runs cancel", &["nap-1", "--reason", "enough"]);
    story.tell("runs terminate", &["nap-2", "--reason", "enough"]);
    let ends = story.desk.cli(&["runs", "wait", "nap-1", "nap-2", "--timeout", "60s", "--json"]).exits(8);
    let ends = valid("runs wait", &ends.out);
    assert_eq!(ends["runs"][0]["message"], "cancelled by ada: enough");
    assert_eq!(ends["runs"][1]["message"], "terminated by ada: enough");

    let bill = story.tell("runs fork", &["stay-1", "--from-start", "--dry-run"]);
    assert_eq!((&bill["fork"], &bill["calls"][0]["outcome"]), (&Value::Null, &json!("undone")));
    let fork = story.own("runs fork", &["stay-1", "--from-start", "--new-id", "stay-1b"]);
    assert_eq!(fork["fork"], "stay-1b");
    let retry = story.own("runs retry", &["stay-1"]);
    assert_eq!(retry["fork"], "stay-1~2");
    // What a fork would do again is said before it is refused.
    let refused = story.desk.cli(&["runs", "fork", "refund-1", "--before", "0:pay_back"]).exits(5);
    assert!(refused.out.contains("undecided") && refused.out.contains("irreversible"), "{}", refused.out);
    assert!(refused.err.contains("--keep COMMAND"), "{}", refused.err);
    let kept = story.tell("runs fork", &["refund-1", "--before", "0:pay_back", "--keep", "0:pay_back"]);
    assert_eq!(kept["calls"][0]["decision"], "keep");
}

async fn queueing(story: &mut Story<'_>) {
    let client = builder(&story.desk.db).client().start().await.unwrap();
    client.start::<nap>("later".into()).id("nap-q").queue("mail").key("acme").await.unwrap();
    client.schedule::<count>("0 3 * * *", "UTC").input(2).await.unwrap();
    client.shutdown().await.unwrap();
    let set = story.tell("queues limit set", &["mail/*", "--starts", "5", "--per", "90s"]);
    assert_eq!((&set["action"], &set["limit"]["per_seconds"]), (&json!("set"), &json!(90.0)));
    story.tell("queues limit set", &["mail", "--running", "2"]);
    let limits = story.tell("queues limit list", &[]);
    assert_eq!(
        (&limits["limits"][0]["pattern"], &limits["limits"][0]["number"]),
        (&json!("mail"), &json!(2))
    );
    let queues = story.tell("queues list", &[]);
    let queue = &queues["queues"][0];
    assert_eq!((&queue["name"], &queue["open"]), (&json!("mail"), &json!(1)));
    assert_eq!(queue["limits"].as_array().unwrap().len(), 2);
    let listed = story.desk.cli(&["queues", "list"]).exits(0).out;
    assert!(listed.contains("mail: 2 running, mail/*: 5 starts in 90s"), "{listed}");
    let removed = story.tell("queues limit remove", &["mail", "running"]);
    assert_eq!((&removed["action"], &removed["limit"]["number"]), (&json!("removed"), &json!(2)));
    let none = story.desk.cli(&["queues", "limit", "remove", "mail", "running"]).exits(3);
    assert!(none.err.contains("queues limit list"), "{}", none.err);

    let paused = story.tell("schedules pause", &["count"]);
    assert_eq!((&paused["action"], &paused["schedule"]["paused"]), (&json!("paused"), &json!(true)));
    assert!(story.desk.cli(&["schedules", "list"]).exits(0).out.contains("paused"));
    assert_eq!(story.tell("schedules resume", &["count"])["schedule"]["paused"], false);
    let run = story.own("schedules trigger", &["count"])["done"][0]["run"].as_str().unwrap().to_owned();
    assert_eq!(story.tell("runs wait", &[&run, "--timeout", "60s"])["runs"][0]["result"], 2);
    let listed = story.tell("schedules list", &[]);
    assert_eq!(listed["schedules"][0]["recent"][0]["outcome"], "triggered");
    let tick = "2026-01-05T03:00:00Z";
    let ticked = story.own("schedules trigger", &["count", "--at", tick]);
    assert_eq!(ticked["done"][0]["run"], "schedule:count:2026-01-05T03:00:00Z");
    let foreign = story.desk.cli(&["schedules", "trigger", "count"]).exits(3);
    assert!(foreign.err.contains("aether::cli::run"), "{}", foreign.err);
    assert!(story.desk.cli(&["schedules", "pause", "none"]).exits(3).err.contains("schedules list"));

    let many = story.desk.own(&["runs", "retry", "--workflow", "stay", "--dry-run", "--json"]).exits(0);
    assert!(!valid("runs retry many", &many.out)["forks"].as_array().unwrap().is_empty());
    story.told.insert("runs retry many".into());
}

fn with_code(story: &mut Story<'_>) {
    let verdicts = story.own("verify", &["count-1", "stay-1"]);
    assert_eq!(verdicts["runs"][0]["fits"], true);
    let check = story.own("check", &["--workflow", "refund"]);
    assert_eq!(check["parks"], 0);
    let graph = story.own("graph", &["count"]);
    assert_eq!(graph["known_from"], "program");
}

fn store(story: &mut Story<'_>) {
    let file = story.desk.folder.path().join("count.json");
    let file = file.to_str().unwrap();
    let exported = story.tell("export", &["count-1", "--out", file]);
    assert_eq!(exported["runs"], json!(["count-1"]));
    let stdout = story.desk.cli(&["export", "count-1"]).exits(0);
    assert_eq!(stdout.out, std::fs::read_to_string(file).unwrap());
    let other = Desk::new();
    let migrated = other.json("db migrate", &[]);
    assert_eq!(migrated["from"], 0);
    story.told.insert("db migrate".into());
    let imported = other.json("import", &[file]);
    assert_eq!(imported["runs"], json!(["count-1"]));
    story.told.insert("import".into());
    assert_eq!(other.json("runs wait", &["count-1"])["runs"][0]["result"], 3);

    let (copy, kept) = (story.desk.folder.path().join("copy.db"), story.desk.folder.path().join("kept.json"));
    let (copy, kept) = (copy.to_str().unwrap(), kept.to_str().unwrap());
    let copied = story.tell("db backup", &[copy]);
    assert_eq!(copied["replaced"], Value::Null);
    assert!(story.desk.cli(&["db", "backup", copy]).exits(4).err.contains("a name of its own"));
    let sound = story.tell("db check", &[]);
    assert_eq!((&sound["problems"], &sound["runs"]), (&json!([]), &copied["runs"]));
    let empty = Desk::new();
    let restored = empty.json("db restore", &[copy]);
    story.told.insert("db restore".into());
    assert_eq!((&restored["runs"], &restored["replaced"]), (&copied["runs"], &Value::Null));
    assert_eq!(empty.json("runs wait", &["count-1"])["runs"][0]["result"], 3);
    let again = empty.cli(&["db", "restore", copy]).exits(0).out;
    assert!(again.contains(".replaced") && again.contains("docs/backup.md"), "{again}");
    let conn = aether::sqlite::rusqlite::Connection::open(&empty.db).unwrap();
    conn.execute("UPDATE aether_journal SET at = at + 1", []).unwrap();
    drop(conn);
    let broken = empty.cli(&["db", "check", "--json"]).exits(6);
    assert!(valid("db check", &broken.out)["problems"][0]["reason"].as_str().unwrap().contains("altered"));
    assert!(empty.cli(&["evidence", "export", "count-1", "--out", kept]).exits(4).err.contains("altered"));

    let evidence = story.own("evidence export", &["refund-1", "--out", kept]);
    assert_eq!(evidence["decisions"][0]["actor"], "ada");
    let tip = evidence["tip"].as_str().unwrap();
    let verified = story.tell("evidence verify", &[kept, "--tip", tip]);
    assert_eq!((&verified["tip"], &verified["problems"]), (&evidence["tip"], &json!([])));
    assert!(verified["replay"].as_str().unwrap().contains("match"), "{verified}");
    let other_tip = "0".repeat(64);
    assert!(
        story
            .desk
            .cli(&["evidence", "verify", kept, "--tip", &other_tip])
            .exits(6)
            .out
            .contains("DOES NOT HOLD")
    );
    let forged = std::fs::read_to_string(kept).unwrap().replace("\"ada\"", "\"eve\"");
    std::fs::write(kept, forged).unwrap();
    assert!(story.desk.cli(&["evidence", "verify", kept]).exits(6).out.contains("DOES NOT HOLD"));

    let mut console = bare();
    console.arg("--db").arg(&story.desk.db).args(["web", "--json", "--allow", "decide,end"]);
    let mut console = console.stdout(Stdio::piped()).spawn().unwrap();
    let (mut said, mut lines) = (String::new(), BufReader::new(console.stdout.take().unwrap()));
    while !said.ends_with("}\n") {
        assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let url = valid("web", &said)["url"].as_str().unwrap().to_owned();
    story.told.insert("web".into());
    // By `development`.
    story.told.insert("dev".into());
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let mut page = String::new();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut page).unwrap();
    console.kill().unwrap();
    console.wait().unwrap();
    assert!(path.starts_with("login?token=") && page.starts_with("HTTP/1.1 200"), "{url}: {page}");

    let status = story.tell("db status", &[]);
    assert_eq!(status["version"], status["supported"]);
    assert!(status["runs"]["completed"].as_u64().unwrap() >= 5);
    let pruned = story.tell("db prune", &["--failed", "1000d"]);
    assert_eq!(pruned["deleted"], 0);
    let would = other.json("db prune", &["--completed", "0s", "--dry-run"]);
    assert_eq!((&would["deleted"], ids(&other.json("runs list", &[])).len()), (&json!(1), 1));
    assert_eq!(other.json("db prune", &["--completed", "0s"])["deleted"], 1);
    assert!(ids(&other.json("runs list", &[])).is_empty());
    let diagnosis = other.json("doctor", &[]);
    assert_eq!(diagnosis["problems"], 0);
    story.told.insert("doctor".into());
}

fn ids(list: &Value) -> Vec<&str> {
    list["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_lines_say_it_too() {
    let desk = Desk::new();
    one_of_each(&desk.db, desk.folder.path()).await;
    let list = desk.cli(&["runs", "list"]).exits(0).out;
    assert!(
        list.starts_with("RUN") && list.contains("voyage-1") && list.contains("no worker is there"),
        "{list}"
    );
    let show = desk.cli(&["runs", "show", "refund-1"]).exits(0).out;
    for part in ["refund v1", "waiting", "an approval", "inbox approve refund-1", "0:pay_back", "Waits for"] {
        assert!(show.contains(part), "{part} is missing: {show}");
    }
    assert!(desk.cli(&["runs", "history", "count-1"]).exits(0).out.contains("run_completed"));
    assert!(desk.cli(&["ledger", "stay-1"]).exits(0).out.contains("succeeded"));
    assert!(desk.cli(&["inbox", "list"]).exits(0).out.contains("How many are you?"));
    assert!(desk.cli(&["db", "status"]).exits(0).out.contains("its process has died"));
    let doctor = desk.cli(&["doctor"]).exits(6).out;
    assert!(
        doctor.contains("PROBLEM  workers: no worker is there") && doctor.contains("start the program"),
        "{doctor}"
    );
    let page = desk.cli(&["man"]).exits(0).out;
    assert!(
        page.contains(".TH aether") && page.contains("RUNS FORK") && page.contains("undo\\-first"),
        "{page}"
    );
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = desk.cli(&["completions", shell]).exits(0).out;
        assert!(script.contains("undo-first"), "{shell}");
    }
    let own = desk.own(&["completions", "bash"]).exits(0).out;
    assert!(own.contains("desk") && !own.contains("--db"), "the program knows its store");
}
