//! The e-mail of the seeds, over SMTP to a mail server on loopback: rows 93 and 94, with `examples/11_meeting_mail.rs`.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use aether::prelude::*;
use aether::view::{Execution, Purpose};
use aether::view::{Status, Trigger};

use super::kit::run_id;
use crate::built::built;

/// How long one line may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interpreter that has the mail server.
fn python() -> PathBuf {
    let candidates = ["/usr/bin/python3", "python3"].map(PathBuf::from);
    let has_it = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", "import aiosmtpd"]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    candidates.into_iter().find(has_it).expect(
        "this test needs a mail server and finds none; install it: apt-get install -y python3-aiosmtpd",
    )
}

/// What a child process says, line by line.
struct Said(Receiver<String>);

impl Said {
    fn by(stdout: ChildStdout) -> Self {
        let (tell, said) = channel();
        let lines: Lines<_> = BufReader::new(stdout).lines();
        std::thread::spawn(move || {
            lines.map_while(std::result::Result::ok).try_for_each(|line| tell.send(line))
        });
        Self(said)
    }

    fn next(&self) -> String {
        self.0.recv_timeout(PATIENCE).expect("it says nothing more")
    }

    /// Lines up to the first that begins so, which comes last.
    fn through(&self, start: &str) -> Vec<String> {
        let mut lines = vec![self.next()];
        while !lines[lines.len() - 1].starts_with(start) {
            lines.push(self.next());
        }
        lines
    }
}

/// A mail server that keeps what it is sent.
struct MailServer {
    process: Child,
    said: Said,
    port: u16,
}

impl MailServer {
    fn on(port: u16) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/smtp_server.py");
        let mut command = Command::new(python());
        command.arg(script).arg(port.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let said = Said::by(process.stdout.take().unwrap());
        let port = said.next().parse().unwrap();
        Self { process, said, port }
    }

    /// Everything it got. The server ends: what was sent before is kept before that.
    fn mails(mut self) -> Vec<String> {
        drop(self.process.stdin.take());
        self.process.wait().unwrap();
        self.said.0.iter().collect()
    }
}

impl Drop for MailServer {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
    }
}

/// The example, with words to be said to it.
struct Agent {
    process: Child,
    words: ChildStdin,
    said: Said,
}

impl Agent {
    fn start(db: &Path, port: u16) -> Self {
        let mut command = Command::new(built().example("11_meeting_mail"));
        command.arg("--db").arg(db).args(["--smtp", &port.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = Said::by(process.stdout.take().unwrap());
        Self { words: process.stdin.take().unwrap(), said, process }
    }

    fn say(&mut self, word: &str) {
        writeln!(self.words, "{word}").unwrap();
    }

    /// The trace and the result.
    fn end(&mut self) -> Vec<String> {
        let mut said = self.said.through("result: ");
        assert!(self.process.wait().unwrap().success());
        said.iter_mut().for_each(|line| *line = line.trim().to_owned());
        said
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
    }
}

/// The eight entries of the document, in the words of this code: `exec-001` is the call `#0`, `exec-002` its approval.
const EIGHT: [&str; 8] = [
    "workflow: create_contract:1:send_mail#0",
    "workflow: create_contract:1:send_mail#approval",
    "gate: transition:1:send_mail#approval:pending→running",
    "gate: transition:1:send_mail#approval:running→waiting",
    "ann: transition:1:send_mail#approval:waiting→running",
    "ann: transition:1:send_mail#approval:running→completed",
    "step: transition:1:send_mail#0:pending→running",
    "step: transition:1:send_mail#0:running→completed",
];

fn sent_once(server: MailServer, key: &str) {
    let mails = server.mails();
    assert_eq!(mails.len(), 1, "{mails:?}");
    let mail = &mails[0];
    assert!(mail.contains("bob@example.com") && mail.contains("Thursday at ten?"), "{mail}");
    assert!(mail.contains(&format!("Message-ID: <{key}@example.com>")), "{mail}");
}

/// Executions of the mail, as the file tells after the program has gone.
async fn executions(db: &Path) -> (Engine, Vec<Execution>) {
    let engine = Engine::builder().sqlite(db).start().await.unwrap();
    let view = engine.view(&run_id("mail")).await.unwrap();
    assert!(view.illegal.is_empty(), "{:?}", view.illegal);
    let mine = view.executions.into_iter().filter(|execution| execution.command.name() == "send_mail");
    (engine, mine.collect())
}

#[tokio::test]
async fn s093_the_mail_example_yields_the_exact_eight_entries_and_sends_once() {
    let folder = tempfile::tempdir().unwrap();
    let (server, db) = (MailServer::on(0), folder.path().join("mail.db"));
    let mut agent = Agent::start(&db, server.port);
    agent.said.through("waits for Approval");
    agent.say("approve");
    let said = agent.end();
    assert_eq!(said[..8], EIGHT);
    assert_eq!(said[8..], ["result: The invitation to bob@example.com is sent."]);
    sent_once(server, "aether.mail.1.send_mail.0");
    let (_engine, executions) = executions(&db).await;
    let told: Vec<_> = executions.iter().map(|e| (e.purpose, e.lifecycle.status, e.world_changed)).collect();
    assert_eq!(
        told,
        [(Purpose::Call, Status::Completed, true), (Purpose::Approval, Status::Completed, false)]
    );
    assert_eq!(
        (executions[0].constraints.irreversible, executions[1].constraints.irreversible),
        (true, false)
    );
    let resumed = &executions[1].lifecycle.transitions[2];
    assert_eq!((resumed.trigger, resumed.actor.as_str()), (Trigger::Resume, "ann"));
}

#[test]
fn s093_a_process_that_is_killed_while_it_waits_for_the_confirmation_sends_once_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let (server, db) = (MailServer::on(0), folder.path().join("mail.db"));
    let mut question = Vec::new();
    for _ in 0..2 {
        let mut agent = Agent::start(&db, server.port);
        question.push(agent.said.through("waits for Approval").pop().unwrap());
        agent.process.kill().unwrap();
        agent.process.wait().unwrap();
    }
    assert_eq!(question[0], question[1]);
    let mut agent = Agent::start(&db, server.port);
    agent.said.through("waits for Approval");
    agent.say("approve");
    // The contracts and their moves are those of a run that nobody killed; other processes moved them.
    assert_eq!(agent.end()[..8], EIGHT);
    // The run is over: who starts it again is told so, and nothing is sent.
    let mut again = Agent::start(&db, server.port);
    assert_eq!(again.end()[..8], EIGHT);
    sent_once(server, "aether.mail.1.send_mail.0");
}

#[test]
fn s093_a_person_who_says_no_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let (server, db) = (MailServer::on(0), folder.path().join("mail.db"));
    let mut agent = Agent::start(&db, server.port);
    agent.say("reject");
    let said = agent.end();
    let last = said.last().unwrap();
    assert!(
        last.starts_with("result: Nothing is sent: ann rejected") && last.contains("not this one"),
        "{last}"
    );
    assert!(server.mails().is_empty());
}

#[tokio::test]
async fn s094_a_refused_connection_is_told_and_a_retry_of_the_user_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("mail.db");
    // A port on which nobody listens.
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut agent = Agent::start(&db, port);
    agent.said.through("waits for Approval");
    agent.say("approve");
    let told = agent.said.through("waits for Question").pop().unwrap();
    assert!(told.contains("Sending failed: SMTP connection refused. Again?"), "{told}");
    let server = MailServer::on(port);
    agent.say("yes");
    agent.said.through("waits for Approval");
    agent.say("approve");
    let said = agent.end();
    assert_eq!(said[..7], EIGHT[..7]);
    assert_eq!(said[7], "step: transition:1:send_mail#0:running→failed (SMTP connection refused)");
    let again: Vec<_> = EIGHT.iter().map(|entry| entry.replace("1:send_mail", "3:send_mail")).collect();
    assert_eq!(said[8..16], again, "a new contract for the same action");
    assert_eq!(said[16..], ["result: The invitation to bob@example.com is sent."]);
    sent_once(server, "aether.mail.3.send_mail.0");
    let (engine, executions) = executions(&db).await;
    let calls = executions.iter().filter(|execution| execution.purpose == Purpose::Call);
    let ended: Vec<_> = calls.map(|execution| execution.lifecycle.status).collect();
    assert_eq!(ended, [Status::Failed, Status::Completed]);
    let rows = engine.ledger(&run_id("mail")).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].digest, rows[1].digest, "the same action");
    let statuses: Vec<_> = rows.iter().map(|row| row.status.as_str()).collect();
    assert_eq!(statuses, ["failed", "succeeded"], "a definite failure has freed the business key");
}
