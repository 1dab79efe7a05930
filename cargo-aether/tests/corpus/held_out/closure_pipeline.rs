//! A list of boxed closures, of which one adds the process's id
//! how: process

use aether::prelude::*;

type Stage = Box<dyn Fn(String) -> String>;

fn stages() -> Vec<Stage> {
    let own = std::process::id();
    vec![
        Box::new(|text| text.trim().to_owned()),
        Box::new(move |text| format!("{text}-{own}")),
        Box::new(|text| text.to_lowercase()),
    ]
}

fn label(text: &str) -> String {
    stages().iter().fold(text.to_owned(), |text, stage| stage(text))
}

#[workflow]
pub async fn closure_pipeline(cx: &mut Cx, _input: u64) -> Result<String> {
    cx.random().await;
    Ok(label(" Batch "))
}
