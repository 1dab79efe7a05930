//! A date whose text may be "today"
//! how: clock

use std::str::FromStr;

use aether::prelude::*;

struct Day(chrono::NaiveDate);

impl FromStr for Day {
    type Err = chrono::ParseError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        match text {
            "today" => Ok(Day(chrono::Local::now().date_naive())),
            "tomorrow" => Ok(Day(chrono::Local::now().date_naive() + chrono::Days::new(1))),
            other => other.parse().map(Day),
        }
    }
}

#[workflow]
pub async fn date_from_a_word(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    let Day(due) = "tomorrow".parse().unwrap();
    Ok(due.to_string())
}
