//! An agent that writes an e-mail, asks a person, and sends it over SMTP: once, whatever crashes meanwhile.
//!
//! Run: `cargo run --example 11_meeting_mail`. It starts a mail server on loopback, approves as Ann, and shows the trace.
//! The server is Python's `aiosmtpd` (Debian: `apt-get install -y python3-aiosmtpd`).
//!
//! With `--db FILE --smtp PORT` it keeps its run and uses a mail server that is running. It then reads replies from its
//! input, one per line: `approve`, `reject`, `yes`, `no`. Kill it while it waits and start it again: it still waits.

use std::io::BufRead as _;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError};
use aether::people::{Pending, Waiting};
use aether::prelude::*;
use aether::view::{Purpose, TraceEntry};
use lettre::message::Mailbox;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Mail {
    to: String,
    subject: String,
    body: String,
}

/// The way to the mail server.
struct Mailer(AsyncSmtpTransport<Tokio1Executor>);

/// Send an e-mail. It cannot be taken back, so a person must agree.
#[step(effect = "tool", irreversible, approval = "required", key = |to, subject| format!("email:send:{to}:{subject}"))]
async fn send_mail(cx: &mut StepCx, to: &str, subject: &str, body: &str) -> Result<String> {
    let sender: Mailbox = "Agent <agent@example.com>".parse()?;
    // A receiver that got the mail twice could tell by its id.
    let id = cx.idempotency_key().as_str().replace([':', '/'], ".");
    let mail = Message::builder()
        .message_id(Some(format!("<{id}@example.com>")))
        .from(sender)
        .to(to.parse::<Mailbox>()?)
        .subject(subject)
        .body(body.to_owned())?;
    match cx.dep::<Mailer>()?.0.send(mail).await {
        Ok(_) => Ok("the mail is sent".into()),
        Err(error) if is_refused(&error) => Err(Failure::permanent("SMTP connection refused")),
        // The server refused: nothing was sent.
        Err(error) if error.is_permanent() || error.is_transient() => Err(Failure::permanent(error)),
        // The connection broke, and it is not known when.
        Err(error) => Err(Failure::unknown(error)),
    }
}

/// Whether no server listens at the address.
fn is_refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let io = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    io == Some(std::io::ErrorKind::ConnectionRefused) || error.source().is_some_and(is_refused)
}

/// Invite a person to a meeting.
#[workflow]
async fn meeting_mail(cx: &mut Cx, wish: String) -> Result<String> {
    let mail: Mail = cx.llm("draft").system("Write the e-mail that is wished for.").user(wish).json().await?;
    loop {
        match send_mail(cx, &mail.to, &mail.subject, &mail.body).await {
            Ok(_) => return Ok(format!("The invitation to {} is sent.", mail.to)),
            Err(StepError::Rejected(why)) => return Ok(format!("Nothing is sent: {why}.")),
            Err(StepError::App(why)) => {
                let again: bool = cx.ask(format!("Sending failed: {why}. Again?")).await?;
                if !again {
                    return Ok(format!("Nothing is sent: {why}."));
                }
            }
            Err(other) => return Err(other.into()),
        }
    }
}

/// Plays the model.
#[derive(Debug)]
struct Script;

impl ModelClient for Script {
    fn chat(
        &self,
        _request: ChatRequest,
    ) -> Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + '_>> {
        let mail = r#"{"to": "bob@example.com", "subject": "Meeting", "body": "Thursday at ten?"}"#;
        let answer = ChatResponse { content: Some(mail.into()), ..ChatResponse::default() };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// The trace of one mail: who made each contract, and who changed its status.
fn line(entry: &TraceEntry) -> Option<String> {
    let contract = entry.contract.as_ref().filter(|id| id.as_str().contains("send_mail"))?;
    let by = match (entry.from, entry.purpose?) {
        (None, _) => "workflow".to_owned(),
        (Some(_), Purpose::Call) => "step".to_owned(),
        (Some(_), Purpose::Approval) if entry.actor == "ann" => "ann".to_owned(),
        (Some(_), Purpose::Approval) => "gate".to_owned(),
    };
    let error = entry.error.as_ref().filter(|_| contract.as_str().ends_with(char::is_numeric));
    let error = error.map(|error| format!(" ({error})")).unwrap_or_default();
    Some(format!("{by}: {}{error}", entry.action()))
}

/// Sends a person's reply to what waits.
async fn send_reply(engine: &Engine, waits: &Pending, reply: &str) -> Result<()> {
    let (run, command) = (&waits.run, &waits.command);
    match (waits.waiting, reply) {
        (Waiting::Approval, "approve") => engine.approve(run, command, "ann").await?,
        (Waiting::Approval, "reject") => engine.reject(run, command, "not this one", "ann").await?,
        (Waiting::Question, reply) => engine.answer(run, command, &(reply == "yes"), "ann").await?,
        (_, reply) => println!("`{reply}` is no answer to this"),
    }
    Ok(())
}

/// Shows what waits and sends replies until the run has ended.
async fn talk(engine: &Engine, replies: &mut dyn Iterator<Item = String>) -> Result<String> {
    let run =
        engine.start::<meeting_mail>("Invite bob@example.com to a meeting".to_owned()).id("mail").await?;
    let mut shown = None;
    while !run.status().await?.is_terminal() {
        let Some(waits) = engine.pending(run.id()).await?.pop() else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        if shown.replace(waits.since) != Some(waits.since) {
            let about = waits.args.as_ref().or(waits.question.as_ref());
            println!("waits for {:?}: {}", waits.waiting, about.map_or("", |about| about.as_str()));
            match replies.next() {
                Some(reply) => send_reply(engine, &waits, reply.trim()).await?,
                None => return Ok("it still waits".into()),
            }
        }
    }
    engine.trace(run.id()).await?.entries.iter().filter_map(line).for_each(|line| println!("  {line}"));
    Ok(run.result().await?)
}

async fn start(db: &str, port: u16) -> Result<Engine> {
    let smtp = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous("127.0.0.1").port(port).build();
    let engine = Engine::builder().sqlite(db).model(Script).provide(Mailer(smtp));
    Ok(engine.lease(Duration::from_secs(1)).start().await?)
}

/// The mail server, and its port. What it is sent is shown.
fn mail_server() -> Result<(Child, u16)> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/smtp_server.py");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "/usr/bin/python3".into());
    let mut command = Command::new(python);
    let mut server = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let Some(output) = server.stdout.take() else { return Err(Failure::new("the mail server says nothing")) };
    let mut lines = std::io::BufReader::new(output).lines().map_while(|line| line.ok());
    let port = lines.next().unwrap_or_default();
    let port = port.parse().in_context("no mail server: apt-get install -y python3-aiosmtpd")?;
    std::thread::spawn(move || lines.for_each(|mail| println!("the server got {mail}")));
    Ok((server, port))
}

#[tokio::main]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [_, db, _, port] = args.as_slice() {
        let engine = start(db, port.parse()?).await?;
        println!("result: {}", talk(&engine, &mut std::io::stdin().lines().map_while(|l| l.ok())).await?);
        engine.shutdown().await?;
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let (mut server, port) = mail_server()?;
    let engine = start(&folder.path().join("mail.db").to_string_lossy(), port).await?;
    println!("result: {}", talk(&engine, &mut ["approve".to_owned()].into_iter()).await?);
    engine.shutdown().await?;
    server.kill()?;
    Ok(())
}
