//! A schedule as text: short, for the environment and a command line, without a character that a shell would take.
//!
//! Promise: what is written parses back to the same plan; what does not parse is an error that says what is right.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::plan::{Arrival, Choice, Decision, Message, MessageKind, Plan, Point, PointKind};

impl PointKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Ack => "ack",
            Self::Read => "read",
            Self::Found => "found",
            Self::Body => "body",
            Self::Return => "return",
            Self::Timer => "timer",
        }
    }
}

impl MessageKind {
    const ALL: [Self; 4] = [Self::Signal, Self::Cancel, Self::Reply, Self::Report];

    const fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Cancel => "cancel",
            Self::Reply => "reply",
            Self::Report => "report",
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.name(), self.number)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.kind.name(), self.number)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(point, Decision::Yield(times)) => write!(f, "{point}-yield-{times}"),
            Self::At(point, Decision::Stall(wait)) => write!(f, "{point}-stall-{}ms", wait.as_millis()),
            Self::At(point, Decision::Freeze(wait)) => write!(f, "{point}-freeze-{}ms", wait.as_millis()),
            Self::At(point, Decision::Crash) => write!(f, "{point}-crash"),
            Self::At(point, Decision::ShutDown) => write!(f, "{point}-shutdown"),
            Self::Message(message, Arrival::At(point)) => write!(f, "{message}-at-{point}"),
            Self::Message(message, Arrival::After(wait)) => {
                write!(f, "{message}-after-{}ms", wait.as_millis())
            }
            Self::Grace(grace) => write!(f, "grace-{}ms", grace.as_millis()),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, choice) in self.choices.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{choice}")?;
        }
        Ok(())
    }
}

/// Splits the number from the end of a name.
fn numbered(text: &str) -> Option<(&str, u32)> {
    let digits = text.find(|c: char| c.is_ascii_digit())?;
    let (name, number) = text.split_at(digits);
    Some((name, number.parse().ok().filter(|number| *number > 0)?))
}

fn point(text: &str) -> Option<Point> {
    let (name, number) = numbered(text)?;
    let kind = PointKind::ALL.into_iter().find(|kind| kind.name() == name)?;
    Some(Point { kind, number })
}

fn message(text: &str) -> Option<Message> {
    let (name, number) = numbered(text)?;
    let kind = MessageKind::ALL.into_iter().find(|kind| kind.name() == name)?;
    Some(Message { kind, number })
}

fn wait(text: &str) -> Option<Duration> {
    Some(Duration::from_millis(text.strip_suffix("ms")?.parse().ok()?))
}

fn choice(text: &str) -> Option<Choice> {
    let parts: Vec<&str> = text.split('-').collect();
    Some(match parts.as_slice() {
        ["grace", grace] => Choice::Grace(wait(grace)?),
        [at, "yield", times] => Choice::At(point(at)?, Decision::Yield(times.parse().ok()?)),
        [at, "stall", held] => Choice::At(point(at)?, Decision::Stall(wait(held)?)),
        [at, "freeze", held] => Choice::At(point(at)?, Decision::Freeze(wait(held)?)),
        [at, "crash"] => Choice::At(point(at)?, Decision::Crash),
        [at, "shutdown"] => Choice::At(point(at)?, Decision::ShutDown),
        [what, "at", at] => Choice::Message(message(what)?, Arrival::At(point(at)?)),
        [what, "after", late] => Choice::Message(message(what)?, Arrival::After(wait(late)?)),
        _ => return None,
    })
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let choices = text.split(',').filter(|choice| !choice.is_empty());
        let parsed =
            choices.map(|text| choice(text).ok_or_else(|| format!("`{text}` is no choice of a schedule")));
        Ok(Self { choices: parsed.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_parses_back() {
        let text = "grace-0ms,signal1-at-write5,cancel1-after-20ms,reply2-at-return1,report1-after-0ms,ack3-yield-2,\
                    read1-stall-5ms,found7-freeze-5ms,body1-crash,timer2-shutdown";
        assert_eq!(text.parse::<Plan>().map(|plan| plan.to_string()), Ok(text.to_owned()));
        assert_eq!("".parse(), Ok(Plan::default()));
        for wrong in
            ["write0-crash", "write-crash", "pen1-crash", "write1-stall-5s", "signal1-at-noon", "grace"]
        {
            assert!(wrong.parse::<Plan>().is_err(), "{wrong}");
        }
    }
}
