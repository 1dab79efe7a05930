//! A topic is researched within a budget by an inline workflow, and an agent writes it up
//! how: clean

use std::time::Duration;

use aether::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Assignment {
    topic: String,
    questions: Vec<String>,
    words: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Finding {
    question: String,
    answer: String,
}

/// Look something up in the library.
#[step(effect = "read")]
pub async fn research_report_look_up(_cx: &mut StepCx, query: &str) -> Result<String> {
    Ok(format!("nothing about {query}"))
}

fn cut(text: &str, words: usize) -> String {
    let mut kept: Vec<&str> = text.split_whitespace().take(words + 1).collect();
    if kept.len() > words {
        kept[words] = "...";
    }
    kept.join(" ")
}

#[workflow]
pub async fn research_report_dig(cx: &mut Cx, topic: String, questions: Vec<String>) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for question in questions {
        let agent = cx.agent("digger").system(format!("You collect facts about {topic}."));
        match agent.tools(research_report_look_up::tool()).max_turns(5).run(question.clone()).await {
            Ok(report) => findings.push(Finding { question, answer: report.answer }),
            Err(StepError::OverBudget(over)) => {
                tracing::info!(%over, "no budget is left");
                break;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Ok(findings)
}

#[workflow]
pub async fn research_report(cx: &mut Cx, assignment: Assignment) -> Result<String> {
    let budget = Budget::new().named("research").tokens(80_000).calls(40).time(Duration::from_secs(1800));
    let found =
        research_report_dig(cx.budget(budget), assignment.topic.clone(), assignment.questions).await?;
    if found.is_empty() {
        return Err(Failure::permanent(format!("nothing was found about {}", assignment.topic)));
    }
    let notes: Vec<String> = found.iter().map(|f| format!("- {}: {}", f.question, f.answer)).collect();
    let writer = cx.agent("writer").system("You write reports.").budget(Budget::new().calls(3));
    let text = writer.run(format!("{}\n{}", assignment.topic, notes.join("\n"))).await?.answer;
    Ok(cut(&text, assignment.words))
}
