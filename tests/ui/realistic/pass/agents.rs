#![deny(warnings)]
//! Agents that plan, search and answer.

use aether::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ticket {
    pub id: u64,
    pub text: String,
    pub tags: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Answered(String),
    Escalated { reason: String },
    Ignored,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub query: String,
    pub tools: Vec<String>,
    pub done: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Hit {
    pub title: String,
    pub score: f64,
}

/// Ask the model.
#[step(effect = "llm", retry(max_retries = 4, delay = "1s"), timeout = "2m")]
async fn ask(cx: &mut StepCx, prompt: &str) -> Result<String> {
    let _ = cx.attempt();
    Ok(prompt.to_uppercase())
}

/// Make a plan.
#[step(effect = "llm")]
async fn plan(cx: &mut StepCx, ticket: &Ticket, history: &[String]) -> Result<Plan> {
    let _ = cx;
    Ok(Plan { query: ticket.text.clone(), tools: history.to_vec(), done: history.len() > 3 })
}

/// Search the archive.
#[step(effect = "read", retry(max_retries = 5))]
async fn search(cx: &mut StepCx, query: &str, limit: u32) -> Result<Vec<Hit>> {
    let _ = (cx, limit);
    Ok(vec![Hit { title: query.to_owned(), score: 0.5 }])
}

/// Send an e-mail.
#[step(effect = "tool", irreversible, key = |to, subject| format!("{to}:{subject}"))]
async fn send_email(cx: &mut StepCx, to: &str, subject: &str, body: &str) -> Result<String> {
    Ok(format!("{} {to} {subject} {}", cx.idempotency_key(), body.len()))
}

/// Run a tool of the agent.
#[step(effect = "tool", idempotent, retry(max_retries = 2))]
async fn run_tool(cx: &mut StepCx, name: String, arguments: BTreeMap<String, String>) -> Result<String> {
    let _ = cx;
    Ok(format!("{name} {}", arguments.len()))
}

/// Score a text without touching anything.
#[step(effect = "pure")]
async fn score(text: String, words: BTreeSet<String>) -> Result<f64> {
    let found = text.split_whitespace().filter(|word| words.contains(*word)).count();
    #[allow(clippy::cast_precision_loss)]
    let found = found as f64;
    Ok(found)
}

fn best(hits: &[Hit]) -> Option<&Hit> {
    hits.iter().max_by(|a, b| a.score.total_cmp(&b.score))
}

// 1
#[workflow]
async fn triage(cx: &mut Cx, ticket: Ticket) -> Result<Verdict> {
    if ticket.text.trim().is_empty() {
        return Ok(Verdict::Ignored);
    }
    let opened = cx.now().await;
    let plan = plan(cx, &ticket, &[]).await?;
    let hits = search(cx, &plan.query, 10).await?;
    let Some(best) = best(&hits) else {
        return Ok(Verdict::Escalated { reason: format!("nothing found since {opened}") });
    };
    let answer = ask(cx, &format!("Answer {} with {}", ticket.text, best.title)).await?;
    send_email(cx, "customer@example.com", &format!("Re: {}", ticket.id), &answer).await?;
    Ok(Verdict::Answered(answer))
}

// 2
#[workflow]
async fn react_loop(cx: &mut Cx, ticket: Ticket, max_turns: usize) -> Result<Verdict> {
    let mut history: Vec<String> = Vec::new();
    for turn in 0..max_turns {
        let plan = plan(cx, &ticket, &history).await?;
        if plan.done {
            return Ok(Verdict::Answered(history.pop().unwrap_or_default()));
        }
        for tool in plan.tools {
            let arguments = BTreeMap::from([("query".to_owned(), plan.query.clone())]);
            match run_tool(cx, tool.clone(), arguments).await {
                Ok(result) => history.push(result),
                Err(error) if error.is_in_doubt() => {
                    return Ok(Verdict::Escalated { reason: format!("{tool} is in doubt: {error}") });
                }
                Err(error) => history.push(format!("tool {tool} failed in turn {turn}: {error}")),
            }
        }
    }
    Ok(Verdict::Escalated { reason: "no turn left".into() })
}

// 3
#[workflow]
async fn research(cx: &mut Cx, topics: Vec<String>) -> Result<BTreeMap<String, String>> {
    let found = cx
        .each(topics.clone(), async |cx: &mut Cx, topic: String| {
            let hits = search(cx, &topic, 5).await?;
            let titles: Vec<&str> = hits.iter().map(|hit| hit.title.as_str()).collect();
            ask(cx, &format!("Summarise {topic}: {}", titles.join(", "))).await
        })
        .limit(4)
        .await;
    let mut report = BTreeMap::new();
    for (topic, summary) in topics.into_iter().zip(found) {
        report.insert(topic, summary.unwrap_or_else(|error| format!("failed: {error}")));
    }
    Ok(report)
}

// 4
#[workflow]
async fn debate(cx: &mut Cx, question: String, rounds: u8) -> Result<String> {
    let mut pro = String::new();
    let mut contra = String::new();
    for round in 1..=rounds {
        let (for_it, against_it) = cx
            .join((
                async |cx: &mut Cx| ask(cx, &format!("{round}: argue for {question} against {contra}")).await,
                async |cx: &mut Cx| ask(cx, &format!("{round}: argue against {question} against {pro}")).await,
            ))
            .await;
        (pro, contra) = (for_it?, against_it?);
    }
    Ok(ask(cx, &format!("Judge: {pro} / {contra}")).await?)
}

// 5
#[workflow]
async fn fastest_model(cx: &mut Cx, prompt: String) -> Result<String> {
    let answer = cx
        .race((
            async |cx: &mut Cx| ask(cx, &format!("small: {prompt}")).await.ok(),
            async |cx: &mut Cx| ask(cx, &format!("large: {prompt}")).await.ok(),
            async |cx: &mut Cx| {
                cx.sleep(Duration::from_secs(60)).await;
                None
            },
        ))
        .await;
    answer.ok_or_else(|| Failure::retryable("no model answered within a minute"))
}

// 6
#[workflow]
async fn self_review(cx: &mut Cx, task: String) -> Result<String> {
    let mut draft = ask(cx, &task).await?;
    let words: BTreeSet<String> = ["because", "therefore"].map(String::from).into();
    let mut tries = 0;
    while score(cx, draft.clone(), words.clone()).await? < 1.0 {
        tries += 1;
        if tries > 3 {
            return Err(Failure::permanent("the draft does not get better"));
        }
        draft = ask(cx, &format!("Give reasons: {draft}")).await?;
    }
    Ok(draft)
}

// 7
#[workflow]
async fn crawl(cx: &mut Cx, start: String, depth: u32) -> Result<Vec<String>> {
    let mut queue = VecDeque::from([(start, 0_u32)]);
    let mut seen = BTreeSet::new();
    while let Some((page, level)) = queue.pop_front() {
        if level > depth || !seen.insert(page.clone()) {
            continue;
        }
        for hit in search(cx, &page, 3).await? {
            queue.push_back((hit.title, level + 1));
        }
    }
    Ok(seen.into_iter().collect())
}

// 8
#[workflow]
async fn extract(cx: &mut Cx, document: String) -> Result<Vec<Ticket>> {
    let mut tickets = Vec::new();
    for (number, part) in document.split("\n\n").enumerate() {
        let text = ask(cx, part).await?;
        let tags = text.split(',').map(|tag| tag.trim().to_lowercase()).filter(|tag| !tag.is_empty());
        tickets.push(Ticket { id: u64::try_from(number)?, tags: tags.collect(), text });
    }
    tickets.sort_by(|a, b| a.text.cmp(&b.text));
    tickets.dedup_by_key(|ticket| ticket.text.clone());
    Ok(tickets)
}

// 9
#[workflow]
async fn majority(cx: &mut Cx, question: String, voters: u32) -> Result<Option<String>> {
    let votes = cx
        .each(0..voters, async |cx: &mut Cx, voter| {
            let seed = cx.random().await;
            ask(cx, &format!("[{voter}/{seed}] {question}")).await
        })
        .await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for vote in votes.into_iter().flatten() {
        *counts.entry(vote).or_default() += 1;
    }
    Ok(counts.into_iter().max_by_key(|(_, count)| *count).map(|(answer, _)| answer))
}

// 10
#[workflow]
async fn hand_over(cx: &mut Cx, ticket: Ticket) -> Result<Verdict> {
    match triage(cx, ticket.clone()).await? {
        Verdict::Escalated { reason } => {
            tracing::warn!(ticket = ticket.id, %reason, "second level");
            let id = cx.uuid().await;
            send_email(cx, "second-level@example.com", &id.to_string(), &reason).await?;
            Ok(cx.child::<react_loop>((ticket, 10)).await?)
        }
        verdict => Ok(verdict),
    }
}

fn main() {}
