//! The schema that a model is shown follows from a type, and may change with it.

use std::pin::Pin;

use aether::error::{Fault, RunError};
use aether::llm::{ChatRequest, ChatResponse, ModelClient, ModelError};
use aether::prelude::*;
use aether::store::event::Event;

use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, in_time};

/// Asks for a verdict, in the shape that its module gives it.
macro_rules! build {
    ($build:ident { $($members:tt)* }) => {
        #[allow(dead_code, reason = "a build is found by its name in a journal, and not called")]
        pub(crate) mod $build {
            use super::*;

            #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
            pub(crate) struct Verdict {
                pub(super) urgent: bool,
                $($members)*
            }

            /// Judge, and wait for a while.
            #[workflow]
            pub(crate) async fn shape_judge(cx: &mut Cx) -> Result<bool> {
                let verdict: Verdict = cx.llm("judge").user("The door is open.").json().await?;
                cx.now().await;
                Ok(verdict.urgent)
            }
        }
    };
}

build!(old {});
build!(new { #[serde(default)] pub(super) floor: Option<u8>, });
build!(strict { pub(super) floor: u8, });

/// Answers with what fits every build, and counts.
#[derive(Clone, Debug)]
struct Judge(Calls, &'static str);

type Answer<'a> = Pin<Box<dyn Future<Output = Result<ChatResponse, ModelError>> + Send + 'a>>;

impl ModelClient for Judge {
    fn chat(&self, _: ChatRequest) -> Answer<'_> {
        self.0.add("judge", "");
        let content = Some(self.1.to_owned());
        Box::pin(std::future::ready(Ok(ChatResponse { content, ..ChatResponse::default() })))
    }
}

async fn recorded() -> Journal {
    let place = Place::sqlite();
    let model = Judge(Calls::default(), r#"{"urgent":true}"#);
    let engine = builder(&place.store, &Calls::default()).model(model).start().await.unwrap();
    let run = engine.start::<old::shape_judge>(()).id("judge").await.unwrap();
    assert!(in_time(run.result()).await.unwrap());
    Journal::read(&place.store, "judge").await
}

/// The journal as another build finds it.
fn deployed(journal: &Journal, to: &str) -> Journal {
    let mut journal = journal.clone();
    if let Event::RunCreated(created) = &mut journal.events[0] {
        created.module = created.module.replace("models::old", &format!("models::{to}"));
    }
    journal
}

#[tokio::test]
async fn a_question_whose_schema_changed_is_the_same_question_wherever_the_run_stopped() {
    let whole = deployed(&recorded().await, "new");
    for length in 1..whole.events.len() {
        let (place, calls) = (Place::sqlite(), Calls::default());
        let planted = whole.first(length);
        // Its prompt is in the same frame.
        if let Some(Event::NodeStarted(_)) = planted.events.last() {
            continue;
        }
        planted.plant(&place.store, Rows::Follow).await;
        let model = Judge(calls.clone(), r#"{"urgent":true,"floor":1}"#);
        let engine = builder(&place.store, &calls).model(model).start().await.unwrap();
        let run = engine.handle::<new::shape_judge>("judge").await.unwrap();
        assert!(in_time(run.result()).await.unwrap());
        let answered = planted.count("command_committed", "llm.judge");
        assert_eq!(calls.of("judge"), 1 - answered, "behind {:?}", planted.events.last());
        engine.verify(run.id()).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_a_newer_type_cannot_read_stops_the_run() {
    let whole = deployed(&recorded().await, "strict");
    let (place, calls) = (Place::sqlite(), Calls::default());
    whole.open().plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &calls).model(Judge(calls.clone(), "{}")).start().await.unwrap();
    let run = engine.handle::<strict::shape_judge>("judge").await.unwrap();
    let error = in_time(run.result()).await.unwrap_err();
    let RunError::Stopped { fault, .. } = &error else { panic!("{error}") };
    assert!(matches!(&**fault, Fault::Unreadable(_)) && error.to_string().contains("floor"), "{error}");
    assert_eq!(calls.of("judge"), 0);
}
