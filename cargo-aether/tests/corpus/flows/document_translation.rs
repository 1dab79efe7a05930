//! The paragraphs of a document are translated, four at a time
//! how: clean

use aether::prelude::*;
use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    title: String,
    text: String,
    target: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Translation {
    title: String,
    text: String,
    failed: Vec<usize>,
}

/// Paragraphs, with those that are short put together.
fn paragraphs(text: &str, least: usize) -> Vec<String> {
    text.split("\n\n")
        .map(str::trim)
        .filter(|paragraph| !paragraph.is_empty())
        .map(String::from)
        .coalesce(|a, b| if a.len() < least { Ok(format!("{a}\n{b}")) } else { Err((a, b)) })
        .collect()
}

#[workflow]
pub async fn document_translation(cx: &mut Cx, document: Document) -> Result<Translation> {
    let parts = paragraphs(&document.text, 200);
    let target = document.target.as_str();
    let translated = cx
        .each(parts.clone(), async |cx: &mut Cx, part| {
            let instruction = format!("Translate into {target}. Answer with the translation alone.");
            cx.llm("translate").system(instruction).user(part).max_tokens(2_000).text().await
        })
        .limit(4)
        .await;
    let mut failed = Vec::new();
    let mut whole = Vec::with_capacity(parts.len());
    for (number, (original, result)) in parts.into_iter().zip(translated).enumerate() {
        match result {
            Ok(text) => whole.push(text),
            Err(error) => {
                tracing::warn!(number, %error, "kept as it is");
                failed.push(number);
                whole.push(original);
            }
        }
    }
    let title = cx.llm("title").user(format!("Translate into {target}: {}", document.title)).text().await?;
    Ok(Translation { title, text: whole.into_iter().join("\n\n"), failed })
}
