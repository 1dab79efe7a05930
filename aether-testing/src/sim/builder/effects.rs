//! Stubs of effects that are no steps: those that an effect crate adds to the context.
//!
//! Promise: an effect is named as in the journal, and its stub gets the recorded arguments.

use aether_core::failure::Failure;
use aether_core::workflow::Workflow;
use serde_json::Value;

use super::sim::Sim;
use crate::sim::script::behaviour::Behaviour;
use crate::sim::script::encode::effect_result;

/// Stubs of effects of the context, by name.
impl<W: Workflow> Sim<W> {
    /// Answers every performance of the effect `name`: one that an effect crate adds to the context. The closure gets
    /// the arguments as they stand in the journal. For requests and models there are [`Sim::http`] and [`Sim::model`].
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # use serde_json::json;
    /// # #[workflow] async fn stock(cx: &mut Cx) -> Result<u16> { Ok(cx.http().get("https://shop.example/7").send().await?.status) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<stock>().stub_effect("http.get", |args| {
    ///     Ok(json!({ "method": "GET", "url": args["url"], "status": 204, "headers": {}, "body": { "text": "" } }))
    /// });
    /// let report = sim.run(()).await;
    /// assert_eq!(report.assert_completed(), &204);
    /// assert_eq!(report.effect_calls("http.get"), 1);
    /// # }
    /// ```
    pub fn stub_effect(
        self,
        name: &str,
        answer: impl Fn(Value) -> Result<Value, Failure> + Send + Sync + 'static,
    ) -> Self {
        let behaviour = Behaviour::stub(move |_, args| effect_result(answer(args.decode()?)));
        self.script(|scripts| scripts.named(name).then = Some(behaviour))
    }

    /// Answers the next performances of the effect `name` in order, before [`Sim::stub_effect`] answers.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn stock(cx: &mut Cx) -> Result<u16> { Ok(cx.http().get("https://shop.example/7").send().await?.status) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let refused = Err(Failure::permanent("connection refused"));
    /// let report = Sim::new::<stock>().stub_effect_seq("http.get", vec![refused]).run(()).await;
    /// assert!(report.assert_failed().to_string().contains("connection refused"));
    /// # }
    /// ```
    pub fn stub_effect_seq(self, name: &str, answers: Vec<Result<Value, Failure>>) -> Self {
        let answers = answers.into_iter().map(|answer| Behaviour::fixed(effect_result(answer)));
        self.script(|scripts| scripts.named(name).first.extend(answers))
    }

    /// Performs the effect `name` for real; what holds for [`Sim::real`] holds here.
    ///
    /// ```no_run
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn stock(cx: &mut Cx) -> Result<u16> { Ok(cx.http().get("https://shop.example/7").send().await?.status) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<stock>().real_effect("http.get");
    /// sim.run(()).await.assert_completed();
    /// # }
    /// ```
    pub fn real_effect(self, name: &str) -> Self {
        self.script(|scripts| scripts.named(name).then = Some(Behaviour::Real))
    }
}
