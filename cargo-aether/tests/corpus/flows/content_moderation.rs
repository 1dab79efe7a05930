//! A model judges a comment, its answer is parsed by hand, and a person decides where it is unsure
//! how: clean

use std::str::FromStr;
use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Verdict {
    Fine,
    Spam,
    Abuse,
    Unsure,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("`{0}` is no verdict")]
pub struct NoVerdict(String);

impl FromStr for Verdict {
    type Err = NoVerdict;

    fn from_str(text: &str) -> std::result::Result<Self, NoVerdict> {
        let word = text.trim().trim_end_matches('.').to_lowercase();
        match word.as_str() {
            "fine" | "ok" => Ok(Self::Fine),
            "spam" => Ok(Self::Spam),
            "abuse" | "abusive" => Ok(Self::Abuse),
            "unsure" => Ok(Self::Unsure),
            _ => Err(NoVerdict(word)),
        }
    }
}

#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub async fn content_moderation_hide(_cx: &mut StepCx, comment: u64, why: Verdict) -> Result<()> {
    Ok(())
}

#[workflow]
pub async fn content_moderation(cx: &mut Cx, comment: u64, text: String) -> Result<Verdict> {
    let mut verdict = Verdict::Unsure;
    for _ in 0..2 {
        let budget = Budget::new().named("moderation").tokens(2_000);
        let question = format!("Answer with one word: fine, spam, abuse or unsure.\n\n{text}");
        let answer = cx.budget(budget);
        match answer.llm("moderate").user(question).max_tokens(10).text().await {
            Ok(word) => match word.parse() {
                Ok(parsed) => {
                    verdict = parsed;
                    break;
                }
                Err(error) => tracing::warn!(comment, error = %error, "asked again"),
            },
            Err(StepError::OverBudget(_)) => break,
            Err(other) => return Err(other.into()),
        }
    }
    if verdict == Verdict::Unsure {
        let asked = cx.ask::<Verdict>(format!("Is comment {comment} fine?")).named("verdict");
        verdict = match asked.expires(Duration::from_secs(2 * 24 * 3600)).await {
            Ok(given) => given,
            Err(StepError::TimedOut(_)) => Verdict::Fine,
            Err(other) => return Err(other.into()),
        };
    }
    if matches!(verdict, Verdict::Spam | Verdict::Abuse) {
        content_moderation_hide(cx, comment, verdict).await?;
    }
    Ok(verdict)
}
