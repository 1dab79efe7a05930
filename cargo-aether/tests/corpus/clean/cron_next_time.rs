//! The next times of a timetable after a given minute
//! how: clean

use aether::prelude::*;

#[derive(Debug)]
struct Field(u64);

impl Field {
    fn parse(text: &str, least: u32, most: u32) -> Option<Self> {
        let mut bits = 0;
        for part in text.split(',') {
            let (range, step) =
                part.split_once('/').map_or((part, Some(1)), |(r, s)| (r, s.parse::<u32>().ok()));
            let (from, to) = match range.split_once('-') {
                _ if range == "*" => (least, most),
                Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
                None => (range.parse().ok()?, range.parse().ok()?),
            };
            for value in (from..=to.min(most)).step_by(step?.max(1) as usize) {
                bits |= 1 << value;
            }
        }
        Some(Self(bits))
    }

    fn has(&self, value: u32) -> bool {
        self.0 >> value & 1 == 1
    }
}

fn next_times(rule: &str, after: u32, count: usize) -> Option<Vec<String>> {
    let mut fields = rule.split_whitespace();
    let minutes = Field::parse(fields.next()?, 0, 59)?;
    let hours = Field::parse(fields.next()?, 0, 23)?;
    let found = (after + 1..after + 3 * 1440)
        .filter(|minute| minutes.has(minute % 60) && hours.has(minute / 60 % 24))
        .take(count)
        .map(|minute| format!("+{}d {:02}:{:02}", minute / 1440, minute / 60 % 24, minute % 60));
    Some(found.collect())
}

#[workflow]
pub async fn cron_next_time(cx: &mut Cx, _input: u64) -> Result<String> {
    let now = cx.now().await;
    let minute = now.as_second().rem_euclid(86_400) as u32 / 60;
    let times = next_times("*/20,5 6-18/4", minute, 5).ok_or("the rule is not valid")?;
    Ok(times.join(" "))
}
