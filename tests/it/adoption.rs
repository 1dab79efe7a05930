//! Builds that change under open runs: real programs, compiled from edits of one text, on one file after each other and
//! beside each other.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::built::{built, root, side_by_side};

/// The edits: name, what is replaced, and by what.
const EDITS: [(&str, &str, &str); 7] = [
    ("base", "", ""),
    ("read_before_question", "// before the question", "let _ = rate(cx, claim).await;"),
    ("read_before_consent", "// before the consent", "let _ = rate(cx, number).await?;"),
    ("later", "pay(cx, number).await?", "{ let _ = rate(cx, number).await?; pay(cx, number).await? }"),
    ("renamed", "async fn claim(", "async fn claim_of_money("),
    (
        "impatient",
        "cx.sleep(month).await;\n                false",
        "let _ = (cx, month);\n                false",
    ),
    (
        "other_input",
        "async fn claim(cx: &mut Cx, number: u32)",
        "async fn claim(cx: &mut Cx, number: u32, _name: String)",
    ),
];

struct Builds {
    folder: tempfile::TempDir,
    programs: BTreeMap<&'static str, PathBuf>,
}

fn builds() -> &'static Builds {
    static BUILDS: OnceLock<Builds> = OnceLock::new();
    BUILDS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let programs =
            side_by_side(&EDITS, |(name, from, to)| (*name, compile(folder.path(), name, from, to)));
        Builds { programs: programs.into_iter().collect(), folder }
    })
}

fn compile(folder: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    let agent = std::fs::read_to_string(root().join("tests/it/adoption/agent.rs")).unwrap();
    assert!(agent.contains(from), "{name} edits nothing");
    let mut text = if from.is_empty() { agent } else { agent.replace(from, to) };
    if name == "renamed" {
        text = text
            .replace("RunHandle<claim>", "RunHandle<claim_of_money>")
            .replace("::<claim>", "::<claim_of_money>");
    }
    if name == "other_input" {
        text = text.replace("::<claim>(number)", "::<claim>((number, String::new()))");
    }
    // Of one name, as one file that is edited has: it is the module of the workflows.
    let (place, program) = (folder.join(name), folder.join(name).join("agent"));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("agent.rs"), text).unwrap();
    let mut rustc = built().rustc();
    let done =
        rustc.arg("--crate-name=agent").arg("-o").arg(&program).arg(place.join("agent.rs")).output().unwrap();
    assert!(done.status.success(), "{name} does not compile: {}", String::from_utf8_lossy(&done.stderr));
    program
}

/// A program that runs on a file.
struct Agent {
    child: Child,
    input: Option<ChildStdin>,
    output: Receiver<String>,
    greeting: String,
}

impl Agent {
    fn start(build: &str, file: &Path) -> Self {
        Self::with(build, file, "")
    }

    fn with(build: &str, file: &Path, choice: &str) -> Self {
        let mut command = Command::new(&builds().programs[build]);
        command.arg(file).arg(choice).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, output) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let input = child.stdin.take();
        let mut agent = Self { child, input, output, greeting: String::new() };
        agent.greeting = agent.line();
        agent
    }

    fn line(&self) -> String {
        self.output.recv_timeout(Duration::from_secs(60)).expect("the program says nothing")
    }

    fn ask(&mut self, command: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{command}").unwrap();
        self.line()
    }

    /// Asks until the answer is `wanted`; how long that took.
    fn until(&mut self, command: &str, wanted: &str) -> Duration {
        let began = Instant::now();
        loop {
            let answer = self.ask(command);
            if answer == wanted {
                return began.elapsed();
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{command}: {answer}, and not {wanted}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The end of its input ends it, after a shutdown.
    fn stop(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn file(name: &str) -> PathBuf {
    let folder = builds().folder.path().join("files");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Calls of bodies that change the world.
fn calls(file: &Path, what: &str) -> usize {
    let text = std::fs::read_to_string(format!("{}.calls", file.display())).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(what)).count()
}

/// One run that waits for a person, recorded by the base build, which was killed.
fn one_waiting(name: &str) -> PathBuf {
    let file = file(name);
    let mut base = Agent::start("base", &file);
    assert_eq!(base.ask("start 7"), "claim-7");
    base.until("status claim-7", "waiting");
    base.kill();
    file
}

const PAID: &str = r#"Completed("paid 7")"#;

fn is_paid(end: &str) -> bool {
    end.starts_with("Completed(") && end.contains("paid 7")
}

#[test]
fn a_read_before_a_question_in_a_branch_of_a_callee_parks_the_run_and_the_persons_word_is_kept() {
    let file = one_waiting("branch.db");
    let mut edited = Agent::start("read_before_question", &file);
    edited.until("parked", "1");
    let why = edited.ask("why claim-7");
    assert!(why.contains("approval") && why.contains("agent.rs:"), "{why}");
    assert!(why.contains("needs workflow `claim`"), "{why}");
    assert_eq!(edited.ask("status claim-7"), "waiting");
    assert_eq!(edited.ask("approve claim-7"), "approved");
    let why = edited.ask("why claim-7");
    assert!(why.contains("1 message is kept for it"), "{why}");
    let stopped = edited.ask("end claim-7");
    assert!(stopped.starts_with("Stopped(Parked"), "{stopped}");
    let mut client = Agent::with("base", &file, "client");
    let hold = client.ask("hold claim-7");
    assert!(hold.starts_with("parked since ") && hold.contains("rate"), "{hold}");
    client.stop();
    edited.stop();
    assert_eq!(calls(&file, "pay"), 0);
    let mut base = Agent::start("base", &file);
    let end = base.ask("end claim-7");
    assert!(is_paid(&end), "{end}, and not {PAID}");
    assert_eq!(base.ask("parked"), "0");
    base.stop();
    assert_eq!((calls(&file, "reserve"), calls(&file, "pay")), (1, 1));
}

#[test]
fn an_edit_behind_the_place_where_a_run_stands_is_adopted_and_goes_back_and_forth() {
    let file = one_waiting("adopts.db");
    let mut check = Agent::with("later", &file, "client");
    let report = check.ask("check");
    assert!(
        report.starts_with("1 open runs: 0 fit, 1 fit other code and would be adopted, 0 would be parked"),
        "{report}"
    );
    check.stop();
    // v3 -> v2 -> v3, without a word from anybody in between.
    for build in ["later", "base", "read_before_consent", "later", "base"] {
        let mut agent = Agent::start(build, &file);
        agent.until("parked", if build == "read_before_consent" { "1" } else { "0" });
        agent.stop();
    }
    let mut agent = Agent::start("later", &file);
    assert_eq!(agent.ask("approve claim-7"), "approved");
    let end = agent.ask("end claim-7");
    assert!(is_paid(&end), "{end}");
    agent.stop();
    assert_eq!((calls(&file, "reserve"), calls(&file, "pay")), (1, 1));
}

#[test]
fn a_thousand_runs_that_wait_are_listed_as_parked_and_resume_with_the_words_given_meanwhile() {
    let file = file("thousand.db");
    let mut base = Agent::start("base", &file);
    base.ask("many 1000");
    base.until("waiting", "1000");
    base.kill();
    let mut edited = Agent::start("read_before_consent", &file);
    let took = edited.until("parked", "1000");
    println!("1000 runs parked after {took:?}");
    for number in 0..20 {
        assert_eq!(edited.ask(&format!("approve claim-{number}")), "approved");
    }
    edited.stop();
    assert_eq!(calls(&file, "pay"), 0);
    let mut base = Agent::start("base", &file);
    base.until("parked", "0");
    for number in 0..20 {
        let end = base.ask(&format!("end claim-{number}"));
        assert!(end.contains(&format!("paid {number}")), "{end}");
    }
    base.until("waiting", "980");
    base.stop();
    assert_eq!((calls(&file, "reserve"), calls(&file, "pay")), (1000, 20));
}

#[test]
fn builds_beside_each_other_leave_each_other_their_runs() {
    let file = one_waiting("rolling.db");
    let mut old = Agent::start("base", &file);
    let mut new = Agent::start("read_before_consent", &file);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(new.ask("parked"), "0", "the old build is there to advance it");
    assert_eq!(new.ask("start 8"), "claim-8");
    new.until("status claim-8", "waiting");
    // Told by whoever has not their code.
    assert_eq!(new.ask("approve claim-7"), "approved");
    assert_eq!(old.ask("approve claim-8"), "approved");
    let end = new.ask("end claim-7");
    assert!(is_paid(&end), "{end}");
    let end = old.ask("end claim-8");
    assert!(end.contains("paid 8"), "{end}");
    assert_eq!(old.ask("start 9"), "claim-9");
    old.until("status claim-9", "waiting");
    old.stop();
    new.until("parked", "1");
    new.stop();
    assert_eq!((calls(&file, "reserve"), calls(&file, "pay")), (3, 2));
}

/// Two builds whose difference is behind all that is recorded, one after the other, while runs are decided: the old one is
/// drained when the new one is ready, and goes.
#[test]
fn a_rolling_deploy_loses_and_parks_nothing_that_fits() {
    let file = file("deploy.db");
    let mut old = Agent::start("base", &file);
    old.ask("many 1000");
    old.until("waiting", "1000");
    let mut client = Agent::with("base", &file, "client");
    for number in 0..300 {
        assert_eq!(client.ask(&format!("approve claim-{number}")), "approved");
    }
    let began = Instant::now();
    let mut new = Agent::start("later", &file);
    new.until("ready", "true");
    let ready = began.elapsed();
    assert_eq!(client.ask("workers").split(' ').filter(|worker| !worker.starts_with("0/")).count(), 2);
    let drained = old.ask("drain");
    let after_drain = began.elapsed();
    assert!(drained.contains("cut_off: 0"), "{drained}");
    assert_eq!(old.ask("ready"), "false");
    // A drained one still takes words, and starts runs for the other.
    for number in 300..1000 {
        assert_eq!(old.ask(&format!("approve claim-{number}")), "approved");
    }
    assert_eq!(old.ask("start 1000"), "claim-1000");
    new.until("status claim-1000", "waiting");
    assert_eq!(old.ask("approve claim-1000"), "approved");
    let end = old.ask("end claim-1000");
    assert!(end.contains("paid 1000"), "{end}");
    old.stop();
    for number in 0..1000 {
        let end = new.ask(&format!("end claim-{number}"));
        assert!(end.contains(&format!("paid {number}")), "{end}");
    }
    let all = began.elapsed();
    println!(
        "new build ready after {ready:?}, old one drained after {after_drain:?}, 1001 runs ended after {all:?}"
    );
    assert_eq!(new.ask("parked"), "0");
    new.stop();
    client.stop();
    assert_eq!((calls(&file, "reserve"), calls(&file, "pay")), (1001, 1001));
}

#[test]
fn a_start_that_is_to_refuse_names_the_runs_and_changes_nothing() {
    let file = one_waiting("refuse.db");
    let refused = Agent::with("read_before_question", &file, "refuse");
    assert!(refused.greeting.starts_with("refused 1 open runs do not fit"), "{}", refused.greeting);
    let mut names = vec![refused.greeting.clone()];
    names.extend(refused.output.iter());
    assert!(names.iter().any(|line| line.contains("`claim-7`") && line.contains("agent.rs:")), "{names:?}");
    let mut base = Agent::with("base", &file, "refuse");
    assert_eq!(base.ask("parked"), "0");
    assert_eq!(base.ask("approve claim-7"), "approved");
    assert!(is_paid(&base.ask("end claim-7")));
    base.stop();
}

#[test]
fn a_parked_run_whose_workflow_is_gone_can_be_cancelled_and_its_steps_are_undone() {
    let file = one_waiting("gone.db");
    let mut renamed = Agent::start("renamed", &file);
    renamed.until("parked", "1");
    let why = renamed.ask("why claim-7");
    assert!(why.contains("not linked into this program"), "{why}");
    renamed.stop();
    let mut edited = Agent::start("read_before_question", &file);
    edited.until("parked", "1");
    assert_eq!(edited.ask("cancel claim-7"), "asked");
    edited.until("status claim-7", "cancelled");
    assert_eq!(edited.ask("parked"), "0");
    edited.stop();
    assert_eq!((calls(&file, "reserve"), calls(&file, "give_back"), calls(&file, "pay")), (1, 1, 0));
}

#[test]
fn a_branch_that_lost_its_wait_parks_the_run_and_holds_up_no_other() {
    let file = one_waiting("impatient.db");
    let mut edited = Agent::start("impatient", &file);
    edited.until("parked", "1");
    assert_eq!(edited.ask("start 8"), "claim-8");
    edited.stop();
    let mut check = Agent::with("impatient", &file, "client");
    assert!(check.ask("check").contains("parks `claim-7`"));
    check.stop();
}

#[test]
fn a_parked_run_is_ended_also_by_a_build_that_has_none_of_its_code() {
    for (build, command) in [("renamed", "cancel"), ("other_input", "cancel"), ("renamed", "terminate")] {
        let file = one_waiting(&format!("{build}-{command}.db"));
        let mut edited = Agent::start(build, &file);
        edited.until("parked", "1");
        assert_eq!(edited.ask(&format!("{command} claim-7")), "asked");
        edited.until("status claim-7", "cancelled");
        assert_eq!(edited.ask("parked"), "0");
        edited.stop();
        let undone = usize::from(command == "cancel");
        assert_eq!((calls(&file, "give_back"), calls(&file, "pay")), (undone, 0), "{build} {command}");
    }
}

#[test]
fn a_front_end_with_the_old_code_does_not_count_as_a_worker() {
    let file = one_waiting("client.db");
    let old = Agent::with("base", &file, "client");
    let mut edited = Agent::start("read_before_consent", &file);
    edited.until("parked", "1");
    edited.stop();
    old.stop();
}
