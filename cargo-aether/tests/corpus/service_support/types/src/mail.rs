//! Mails as they come in.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::text;
use crate::ticket::{Plan, Priority, Status, Ticket};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    #[error("the header `{0}` is missing")]
    Missing(&'static str),
    #[error("`{0}` is no header")]
    Header(String),
    #[error("the date is wrong: {0}")]
    Date(#[from] chrono::ParseError),
}

/// The headers, by their names in small letters, and the text.
fn split(mail: &str) -> Result<(HashMap<String, String>, &str), MailError> {
    let (head, body) = mail.split_once("\n\n").unwrap_or((mail, ""));
    let headers = head.lines().map(|line| {
        let (name, value) = line.split_once(':').ok_or_else(|| MailError::Header(line.to_owned()))?;
        Ok((name.trim().to_lowercase(), value.trim().to_owned()))
    });
    Ok((headers.collect::<Result<_, MailError>>()?, body))
}

fn priority(headers: &HashMap<String, String>) -> Priority {
    match headers.get("x-priority").and_then(|value| value.split(' ').next()) {
        Some("1") => Priority::Urgent,
        Some("2") => Priority::High,
        Some("4" | "5") => Priority::Low,
        _ => Priority::Normal,
    }
}

pub fn ticket(number: u64, mail: &str, plan: Plan) -> Result<Ticket, MailError> {
    let (headers, body) = split(mail)?;
    let header = |name: &'static str| headers.get(name).cloned().ok_or(MailError::Missing(name));
    let opened = DateTime::parse_from_rfc2822(&header("date")?)?.with_timezone(&Utc);
    let mut fields = indexmap::IndexMap::new();
    for name in ["message-id", "in-reply-to", "x-product"] {
        if let Some(value) = headers.get(name) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Ok(Ticket {
        number,
        from: header("from")?.to_lowercase(),
        subject: text::shortened(&header("subject")?, 120),
        text: text::without_cards(&text::without_quotes(body)).into_owned(),
        plan,
        opened,
        status: Status::New,
        priority: priority(&headers),
        fields,
    })
}
