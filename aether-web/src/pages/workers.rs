//! Workers, queues with their limits, limits on steps, and schedules.

use std::time::Duration;

use aether_core::engine::{ScheduleError, WorkerView};
use aether_core::store::{Rate, ScheduleRecord, TickOutcome};
use askama::Template;
use axum::http::StatusCode;

use crate::access::refusal::Refusal;
use crate::access::visit::place;
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::text::time::{When, count, duration};

#[derive(Debug, Template)]
#[template(path = "workers.html")]
struct Page {
    shell: Shell,
    workers: Vec<Worker>,
    queues: Vec<Queue>,
    limits: Vec<StepLimit>,
    schedules: Vec<Schedule>,
}

#[derive(Debug)]
struct Worker {
    id: String,
    state: &'static str,
    runs: String,
    codes: usize,
    lease: String,
    silent: String,
    is_me: bool,
}

#[derive(Debug)]
struct Queue {
    limit: String,
    href: String,
    waiting: String,
}

#[derive(Debug)]
struct StepLimit {
    name: String,
    calls: String,
    tokens: String,
    percent: u64,
}

#[derive(Debug)]
struct Schedule {
    name: String,
    workflow: String,
    cron: String,
    zone: String,
    paused: bool,
    next: When,
    recent: Vec<(When, &'static str)>,
}

pub(crate) async fn page(ask: Ask) -> Answer {
    let engine = ask.shared.engine();
    let fault = |error| ask.store(&error);
    let workers = engine.workers().await.map_err(fault)?;
    let limits = engine.limits().list().await.map_err(fault)?;
    let mut queues = Vec::with_capacity(limits.len());
    for limit in &limits {
        let name = limit.pattern.queue();
        let open = aether_core::store::RunFilter::new().open().queue(name);
        queues.push(Queue {
            limit: limit.to_string(),
            href: place(&ask.visit.base, "/?status=open&why=queue"),
            waiting: count(engine.count(open).await.map_err(fault)?),
        });
    }
    let steps = engine.step_limits().list().await.map_err(fault)?;
    let schedules = engine.schedules().await.map_err(|error| match error {
        ScheduleError::Store(error) => ask.store(&error),
        other => Refusal::page(&ask.visit, StatusCode::SERVICE_UNAVAILABLE, other, "/"),
    })?;
    html(&Page {
        shell: ask.shell("workers", "Workers").await?,
        workers: workers.iter().map(worker).collect(),
        queues,
        limits: steps
            .iter()
            .map(|used| StepLimit {
                name: used.limit.name.clone(),
                calls: rate(used.limit.calls.as_ref()),
                tokens: rate(used.limit.tokens.as_ref()),
                percent: used.percent,
            })
            .collect(),
        schedules: schedules.iter().map(|record| schedule(&ask, record)).collect(),
    })
}

fn worker(view: &WorkerView) -> Worker {
    let known = &view.known;
    Worker {
        id: known.id.to_string(),
        state: if known.is_dead { "failed" } else { "completed" },
        runs: count(known.runs),
        codes: known.codes.len(),
        lease: known.lease.map(duration).unwrap_or_default(),
        silent: view.silent.map(duration).unwrap_or_default(),
        is_me: view.is_me,
    }
}

fn rate(rate: Option<&Rate>) -> String {
    rate.map(|rate| format!("{} per {}", count(rate.n), duration(Duration::from_millis(rate.per_ms))))
        .unwrap_or_default()
}

fn schedule(ask: &Ask, record: &ScheduleRecord) -> Schedule {
    let recent = record.recent.iter().rev().take(5).map(|tick| (ask.when(tick.at), outcome(&tick.outcome)));
    Schedule {
        name: record.name.clone(),
        workflow: record.spec.workflow.clone(),
        cron: record.spec.cron.clone(),
        zone: record.spec.zone.clone(),
        paused: record.paused,
        next: ask.when(record.next),
        recent: recent.collect(),
    }
}

fn outcome(outcome: &TickOutcome) -> &'static str {
    match outcome {
        TickOutcome::Started => "started",
        TickOutcome::Triggered => "triggered",
        TickOutcome::Backfilled => "backfilled",
        TickOutcome::Overlapped => "skipped, the run before was open",
        TickOutcome::Missed => "missed",
        TickOutcome::Failed(_) => "not started",
        _ => "",
    }
}
