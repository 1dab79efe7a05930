//! The life of a ticket.

use std::collections::BTreeMap;
use std::time::Duration;

use aether::prelude::*;
use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use support_types::route::{self, Products, Router, Words};
use support_types::{Event, Plan, Status, Ticket, mail, sla, text};

use crate::answer::draft_answer;
use crate::steps::{add_credit, page_team, send_mail};

#[derive(Debug, Serialize, Deserialize)]
pub struct Ended {
    pub status: Status,
    pub credit: Decimal,
    pub events: usize,
}

pub(crate) fn as_chrono(time: aether::jiff::Timestamp) -> Result<DateTime<Utc>> {
    let time = DateTime::from_timestamp(time.as_second(), time.subsec_nanosecond().unsigned_abs());
    time.ok_or_else(|| Failure::permanent("a time beyond the calendar"))
}

fn until(due: DateTime<Utc>, now: DateTime<Utc>) -> Duration {
    (due - now).to_std().unwrap_or(Duration::ZERO)
}

fn assign(ticket: &mut Ticket) -> Result<()> {
    let words = Words::default();
    let routers: [&dyn Router; 2] = [&words, &Products];
    let team = route::team(ticket, routers);
    ticket.priority = route::priority(ticket, team);
    Ok(ticket.apply(Event::Assigned { team })?)
}

/// Page the team until somebody takes the ticket; twice an hour at first, then every hour.
#[workflow]
pub async fn escalate(cx: &mut Cx, ticket: Ticket) -> Result<u32> {
    let Some(team) = ticket.status.team() else { return Ok(0) };
    for round in 0..8u32 {
        page_team(cx, team, ticket.number).await?;
        let minutes = if round < 2 { 30 } else { 60 };
        match cx.signal::<String>("taken").timeout(Duration::from_secs(minutes * 60)).await {
            Ok(by) => {
                tracing::info!(by, ticket = ticket.number, "taken");
                return Ok(round + 1);
            }
            Err(StepError::TimedOut(_)) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Err(Failure::permanent(format!("nobody takes ticket {}", ticket.number)))
}

/// Give a customer back a part of the fee for an answer that was late.
#[workflow]
pub async fn settle_credit(cx: &mut Cx, customer: String, amount: Decimal) -> Result<Decimal> {
    match add_credit(cx, &customer, amount).await {
        Ok(row) => {
            let values = BTreeMap::from([("amount", amount.to_string()), ("row", row.to_string())]);
            let letter = text::filled("We were late, and credit you {amount} (no. {row}).", &values);
            send_mail(cx, &customer, "A credit for you", &letter).await?;
            Ok(amount)
        }
        Err(StepError::Rejected(why)) => {
            tracing::info!(%why, "no credit");
            Ok(Decimal::ZERO)
        }
        Err(other) => Err(other.into()),
    }
}

/// Handle a mail from its arrival until the ticket is closed.
#[workflow]
pub async fn handle_ticket(cx: &mut Cx, number: u64, raw: String, plan: Plan, fee: Decimal) -> Result<Ended> {
    let mut ticket = mail::ticket(number, &raw, plan).in_context("read the mail")?;
    assign(&mut ticket)?;
    let due = sla::due(ticket.opened, sla::allowed(ticket.plan, ticket.priority))
        .ok_or_else(|| Failure::permanent("a ticket that is never due"))?;
    let draft = draft_answer(cx, ticket.clone()).await?;
    let mut answered = None;
    if draft.confident {
        send_mail(cx, &ticket.from, &ticket.subject, &draft.text).await?;
        ticket.apply(Event::Asked)?;
        answered = Some(as_chrono(cx.now().await)?);
    }
    let mut events = 0;
    let mut escalated = false;
    while !ticket.status.is_over() {
        let now = as_chrono(cx.now().await)?;
        let wait = match answered {
            None if !escalated => until(due, now),
            _ => Duration::from_secs(7 * 24 * 3600),
        };
        match cx.signal::<Event>("event").timeout(wait).await {
            Ok(event) => {
                events += 1;
                if matches!(event, Event::Asked | Event::Solved { .. }) && answered.is_none() {
                    answered = Some(as_chrono(cx.now().await)?);
                }
                if let Err(error) = ticket.apply(event) {
                    tracing::warn!(number, %error, "ignored");
                }
            }
            Err(StepError::TimedOut(_)) if answered.is_none() && !escalated => {
                escalated = true;
                let child = cx.child::<escalate>(ticket.clone()).label("ticket", number.to_string());
                child.await?;
            }
            Err(StepError::TimedOut(_)) => ticket.status = Status::Closed,
            Err(other) => return Err(other.into()),
        }
    }
    let credit = sla::credit(fee, due, answered.unwrap_or(due));
    let credit =
        if credit.is_zero() { credit } else { settle_credit(cx, ticket.from.clone(), credit).await? };
    Ok(Ended { status: ticket.status, credit, events })
}
