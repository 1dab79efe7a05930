//! Steps and workflows in a package that knows the `aether` crate by another name only: generated code names nothing
//! else than `crate = ".."` says.
#![deny(warnings)]

use durable::prelude::*;
use serde::{Deserialize, Serialize};

/// A word with its length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The word.
    pub text: String,
    /// Its length in bytes.
    pub length: usize,
}

/// Measure a word.
#[step(effect = "read", crate = "durable")]
pub async fn measure(cx: &mut StepCx, text: &str) -> Result<Word> {
    let _ = cx;
    Ok(Word { text: text.to_owned(), length: text.len() })
}

/// Send a word.
#[step(effect = "tool", key = |word| &word.text, probe = was_sent, crate = "::durable")]
pub async fn send(cx: &mut StepCx, word: &Word) -> Result<usize> {
    let _ = cx;
    Ok(word.length)
}

async fn was_sent(_: &mut StepCx, word: &Word) -> Result<Probe<usize>> {
    Ok(Probe::Happened(word.length))
}

/// Measure and send.
#[workflow(crate = "durable")]
pub async fn deliver(cx: &mut Cx, text: String) -> Result<usize> {
    let word = measure(cx, &text).await?;
    let (sent, again) = cx
        .join((
            async |cx: &mut Cx| send(cx, &word).await,
            async |cx: &mut Cx| counted::Counter::count(cx, word.length).await,
        ))
        .await;
    Ok(sent? + again?)
}

/// Associated functions, in a module that hands its options down.
#[workflow_mod(crate = "durable")]
pub mod counted {
    use durable::prelude::*;

    /// Counts.
    #[derive(Debug)]
    pub struct Counter;

    #[workflow]
    impl Counter {
        /// Count down.
        pub async fn count(cx: &mut Cx, left: usize) -> Result<usize> {
            match left.checked_sub(1) {
                Some(less) => Self::count(cx, less).await,
                None => Ok(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use durable::definition::Workflow as _;

    #[tokio::test]
    async fn it_runs_under_another_name() {
        let engine = Engine::builder().memory().start().await.unwrap();
        let run = engine.start::<deliver>("aether".to_owned()).id("renamed").await.unwrap();
        assert_eq!(run.result().await.unwrap(), 6);
        assert_eq!(counted::Counter_count::DEF.name, "Counter_count");
    }

    #[durable::test(crate = "durable_testing")]
    async fn tests_are_made_under_another_name(sim: durable_testing::Sim<counted::Counter_count>) {
        assert_eq!(sim.run(3).await.assert_completed(), &0);
    }
}
