//! An expense report moves through the states of an enum
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum State {
    Draft,
    Submitted { by: String },
    Questioned { by: String, question: String },
    Approved { by: String },
    Paid { transfer: String },
    Withdrawn,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    Submit { by: String },
    Question { by: String, question: String },
    Answer { text: String },
    Approve { by: String },
    Withdraw,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{event:?} is not possible in {state:?}")]
pub struct Impossible {
    state: State,
    event: Event,
}

impl State {
    fn after(self, event: Event) -> std::result::Result<Self, Impossible> {
        match (self, event) {
            (Self::Draft, Event::Submit { by }) => Ok(Self::Submitted { by }),
            (Self::Submitted { .. }, Event::Question { by, question }) => {
                Ok(Self::Questioned { by, question })
            }
            (Self::Questioned { .. }, Event::Answer { text }) => Ok(Self::Submitted { by: text }),
            (Self::Submitted { by }, Event::Approve { by: manager }) if by != manager => {
                Ok(Self::Approved { by: manager })
            }
            (Self::Draft | Self::Submitted { .. } | Self::Questioned { .. }, Event::Withdraw) => {
                Ok(Self::Withdrawn)
            }
            (state, event) => Err(Impossible { state, event }),
        }
    }
}

#[step(effect = "tool", on_unknown = "ask")]
pub async fn expense_report_pay(_cx: &mut StepCx, number: u64, by: &str) -> Result<String> {
    Ok(format!("report {number}, approved by {by}"))
}

#[workflow]
pub async fn expense_report(cx: &mut Cx, number: u64) -> Result<State> {
    let mut state = State::Draft;
    loop {
        state = match state {
            State::Approved { by } => State::Paid { transfer: expense_report_pay(cx, number, &by).await? },
            State::Paid { .. } | State::Withdrawn => return Ok(state),
            open => {
                let event: Event = cx.signal("event").timeout(Duration::from_secs(90 * 24 * 3600)).await?;
                match open.clone().after(event) {
                    Ok(next) => next,
                    Err(error) => {
                        tracing::warn!(number, %error, "ignored");
                        open
                    }
                }
            }
        };
    }
}
