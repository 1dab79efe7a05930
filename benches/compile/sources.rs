//! The sources that are compiled: workflows with steps of their own, and the same functions without attributes.
//!
//! Promise: both kinds differ in the attributes and in the type of the steps' context, and in nothing else.

use std::fmt::Write as _;

/// Workflows in one file.
const FILE: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `#[workflow]` and `#[step]`.
    Macros,
    /// Plain async functions.
    Plain,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Macros => "macros",
            Self::Plain => "plain",
        }
    }
}

/// Steps of each workflow.
pub(crate) const STEPS: u32 = 3;

/// The root of a crate of so many workflows, and how many files belong to it.
pub(crate) fn root(workflows: u32) -> (String, u32) {
    let files = workflows.div_ceil(FILE);
    let mut text = "//! Workflows.\n\npub mod order;\n".to_owned();
    for file in 0..files {
        let _ = writeln!(text, "pub mod flows_{file};");
    }
    (text, files)
}

/// The module of what the workflows take.
pub(crate) const ORDER: &str = "//! Orders.

use serde::{Deserialize, Serialize};

/// What is ordered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub id: u64,
    pub name: String,
    pub amounts: Vec<u64>,
}
";

/// One file of the workflows of a crate. A line is added `edits` times to its first workflow.
pub(crate) fn file(kind: Kind, workflows: u32, file: u32, edits: u32) -> String {
    let mut text = "//! Workflows.\n\nuse aether::prelude::*;\n\nuse crate::order::Order;\n".to_owned();
    for flow in file * FILE..workflows.min((file + 1) * FILE) {
        for step in 0..STEPS {
            text += &self::step(kind, flow, step);
        }
        text += &workflow(kind, flow, if flow == file * FILE { edits } else { 0 });
    }
    text
}

fn step(kind: Kind, flow: u32, step: u32) -> String {
    let (attribute, context) = match (kind, step) {
        (Kind::Plain, _) => ("", "Cx"),
        (Kind::Macros, 0) => ("#[step(effect = \"read\", retry(max_retries = 5))]\n", "StepCx"),
        (Kind::Macros, _) => ("#[step(effect = \"tool\")]\n", "StepCx"),
    };
    format!(
        "
/// Step {step} of workflow {flow}.
{attribute}pub async fn step_{flow}_{step}(cx: &mut {context}, order: &Order, n: u64) -> Result<u64> {{
    let _ = cx;
    let sum: u64 = order.amounts.iter().sum();
    Ok(order.id + sum + n * {step} + order.name.len() as u64)
}}
"
    )
}

fn workflow(kind: Kind, flow: u32, edits: u32) -> String {
    let attribute = if kind == Kind::Macros { "#[workflow]\n" } else { "" };
    let edits = "    sum += 1;\n".repeat(edits as usize);
    format!(
        "
/// Workflow {flow}.
{attribute}pub async fn flow_{flow}(cx: &mut Cx, order: Order, patient: bool) -> Result<u64> {{
    let mut sum = step_{flow}_0(cx, &order, {flow}).await?;
{edits}    if patient {{
        sum += step_{flow}_1(cx, &order, sum).await?;
    }} else {{
        sum += order.amounts.len() as u64;
    }}
    for n in 0..3 {{
        sum += step_{flow}_1(cx, &order, n).await?;
        if sum > 100 {{
            break;
        }}
    }}
    let more = match step_{flow}_2(cx, &order, sum).await {{
        Ok(more) => more,
        Err(error) => return Err(error.into()),
    }};
    let text = format!(\"{{}} {{more}}\", order.name);
    Ok(sum + text.len() as u64)
}}
"
    )
}
