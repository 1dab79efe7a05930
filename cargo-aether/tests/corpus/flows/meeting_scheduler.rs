//! Free times of several people are intersected, and a person chooses one of them
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slot {
    from: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl Slot {
    fn overlap(self, other: Self) -> Option<Self> {
        let (from, until) = (self.from.max(other.from), self.until.min(other.until));
        (from < until).then_some(Self { from, until })
    }

    fn holds(self, length: TimeDelta) -> bool {
        self.until - self.from >= length
    }
}

fn common(calendars: &[Vec<Slot>], length: TimeDelta) -> Vec<Slot> {
    let Some((first, others)) = calendars.split_first() else { return Vec::new() };
    let mut slots = others.iter().fold(first.clone(), |slots, calendar| {
        slots.iter().flat_map(|slot| calendar.iter().filter_map(|other| slot.overlap(*other))).collect()
    });
    slots.retain(|slot| slot.holds(length));
    slots.sort_by_key(|slot| slot.from);
    slots
}

#[step(effect = "read")]
pub async fn meeting_scheduler_free(_cx: &mut StepCx, person: &str) -> Result<Vec<Slot>> {
    Ok(Vec::new())
}

#[step(effect = "tool", approval = "required")]
pub async fn meeting_scheduler_invite(
    _cx: &mut StepCx,
    people: &[String],
    from: DateTime<Utc>,
) -> Result<String> {
    Ok(format!("{} people at {}", people.len(), from.format("%Y-%m-%d %H:%M")))
}

#[workflow]
pub async fn meeting_scheduler(cx: &mut Cx, people: Vec<String>, minutes: u32) -> Result<Option<String>> {
    let calendars =
        cx.each(people.clone(), async |cx: &mut Cx, who| meeting_scheduler_free(cx, &who).await).await;
    let calendars = calendars.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    let offered = common(&calendars, TimeDelta::minutes(minutes.into()));
    if offered.is_empty() {
        return Ok(None);
    }
    let count = offered.len();
    let question = cx.ask::<usize>(serde_json::json!({ "choose": offered })).named("slot");
    let chosen = question
        .accepted_if(
            move |number| if *number < count { Ok(()) } else { Err(format!("only {count} are offered")) },
        )
        .expires(Duration::from_secs(24 * 3600))
        .await?;
    Ok(Some(meeting_scheduler_invite(cx, &people, offered[chosen].from).await?))
}
