//! Scripted models: what `cx.llm(..)` and `cx.agent(..)` are answered with.
//!
//! Promise: the real effect reads the scripted answer, so an answer that is no JSON fails here as it would outside.

use std::sync::Arc;

use aether_core::workflow::Workflow;
use aether_effects::llm::ChatRequest;

use super::sim::Sim;
use crate::sim::script::conversation::Reply;
use crate::sim::script::model::{ModelAnswer, erased};

/// Scripted models. Where the call names a stream, the text of an answer goes there word by word, or in the pieces of
/// [`say_in_pieces`](crate::say_in_pieces). A question goes to the first of these that has an answer: [`Sim::model_seq`], [`Sim::conversation`],
/// [`Sim::model_when`], [`Sim::model_for`], [`Sim::model`].
impl<W: Workflow> Sim<W> {
    /// Answers every question to a model that has no answer of its own.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// #[workflow]
    /// async fn write(cx: &mut Cx) -> Result<String> {
    ///     let plan = cx.llm("plan").user("What about trains?").text().await?;
    ///     Ok(cx.llm("write").user(&plan).text().await?)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<write>()
    ///     .model(|request| format!("{} messages", request.messages.len()))
    ///     .model_for("write", |_| "They are late.");
    /// let report = sim.run(()).await;
    /// assert_eq!(report.assert_completed(), "They are late.");
    /// assert_eq!(report.model_requests("plan").len(), 1);
    /// # }
    /// ```
    pub fn model<A: ModelAnswer>(self, answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static) -> Self {
        self.script(|scripts| scripts.models.otherwise = Some(erased(answer)))
    }

    /// Answers the questions of the call `call`: of `cx.llm(call)`, and of the agent of that name. There is an example
    /// at [`Sim::model`].
    pub fn model_for<A: ModelAnswer>(
        self,
        call: &str,
        answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        self.script(|scripts| drop(scripts.models.then.insert(call.into(), erased(answer))))
    }

    /// Answers the questions that `asked` takes, of any call: a look into the prompt. The first that fits counts, before
    /// [`Sim::model_for`] and [`Sim::model`].
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether::llm::ChatMessage;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn write(cx: &mut Cx) -> Result<String> { Ok(cx.llm("write").user("What about trains?").text().await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let about_trains =
    ///     |message: &ChatMessage| matches!(message, ChatMessage::User { content, .. } if content.contains("trains"));
    /// let sim = Sim::new::<write>()
    ///     .model_when(move |request| request.messages.iter().any(about_trains), |_| "They are late.")
    ///     .model(|_| "I do not know.");
    /// assert_eq!(sim.run(()).await.assert_completed(), "They are late.");
    /// # }
    /// ```
    pub fn model_when<A: ModelAnswer>(
        self,
        asked: impl Fn(&ChatRequest) -> bool + Send + Sync + 'static,
        answer: impl Fn(&ChatRequest) -> A + Send + Sync + 'static,
    ) -> Self {
        self.script(|scripts| scripts.models.when.push((Arc::new(asked), erased(answer))))
    }

    /// Answers the next questions of the call `call` in order, failed attempts included.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn count(cx: &mut Cx) -> Result<u32> { Ok(cx.llm("count").user("How many?").json().await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// // The first answer is no number, so that the model is asked again.
    /// let report = Sim::new::<count>().model_seq("count", ["seven", "7"]).run(()).await;
    /// assert_eq!(report.assert_completed(), &7);
    /// # }
    /// ```
    pub fn model_seq<A: ModelAnswer>(self, call: &str, answers: impl IntoIterator<Item = A>) -> Self {
        let answers = answers.into_iter().map(ModelAnswer::into_reply);
        self.script(|scripts| scripts.models.first.entry(call.into()).or_default().extend(answers))
    }

    /// Answers the call `call`, mostly an agent, with these replies: to each question the one behind the last answer of its
    /// conversation. So concurrent and repeated conversations do not get into each other's way.
    ///
    /// A conversation is that of one agent in one scope of a run. What other agents said in it, and what a history or a
    /// compaction has in the question, does not count; only where a history continues an earlier conversation of the run
    /// with the same agent, its replies are continued, too. Every attempt at a question gets the same reply, unless the
    /// reply says [`Reply::once`].
    ///
    /// ```
    /// # use aether::prelude::*;
    /// use aether_testing::{Sim, call_tool, say};
    /// # /// Look a word up.
    /// # #[step(effect = "read")] async fn look_up(cx: &mut StepCx, word: String) -> Result<u32> { unreachable!() }
    /// # #[workflow] async fn helped(cx: &mut Cx, question: String) -> Result<String> {
    /// #     Ok(cx.agent("helper").tools(look_up::tool()).run(question).await?.answer)
    /// # }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<helped>()
    ///     .conversation("helper", [call_tool::<look_up>("bell".to_owned()), say("It is found on page 4.")])
    ///     .stub::<look_up>(|word| Ok(word.len() as u32));
    /// let report = sim.run("Where?".to_owned()).await;
    /// assert_eq!(report.assert_completed(), "It is found on page 4.");
    /// # }
    /// ```
    pub fn conversation(self, call: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = replies.into_iter().collect();
        self.script(|scripts| drop(scripts.models.conversations.insert(call.into(), replies)))
    }
}
