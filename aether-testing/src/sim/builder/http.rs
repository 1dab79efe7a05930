//! Scripted servers: what requests of a workflow are answered with.
//!
//! Promise: no request of a workflow leaves the simulation. Requests of a step's real body do.

use aether_core::workflow::Workflow;

use super::sim::Sim;
use crate::sim::script::answers::Answers;
use crate::sim::script::http::{HttpAnswer, HttpCall, HttpScript, answering};

/// Scripted servers.
impl<W: Workflow> Sim<W> {
    /// Answers requests of the workflow with this method and URL. `*` in the URL stands for any text, and as method
    /// for any method. The newest that fits counts.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::{Sim, delayed};
    /// # use serde_json::json;
    /// # use std::time::Duration;
    /// #[workflow]
    /// async fn order(cx: &mut Cx) -> Result<u16> {
    ///     let stock = cx.http().get("https://shop.example/items/7").send().await?.error_for_status()?;
    ///     let order = cx.http().post("https://shop.example/orders").json(&stock.json::<u32>()?);
    ///     Ok(order.send().await?.status)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<order>()
    ///     .http("GET", "https://shop.example/items/*", |_| delayed(Duration::from_secs(5), (200, json!(3))))
    ///     .http("POST", "*/orders", |call| if call.body.is_some() { 201 } else { 400 });
    /// assert_eq!(sim.run(()).await.assert_completed(), &201);
    /// # }
    /// ```
    pub fn http<A: HttpAnswer>(
        self,
        method: &str,
        url: &str,
        answer: impl Fn(&HttpCall) -> A + Send + Sync + 'static,
    ) -> Self {
        self.server(method, url, Answers { first: Vec::new(), then: Some(answering(answer)) })
    }

    /// Answers the next such requests in order, before [`Sim::http`] answers.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[workflow] async fn stock(cx: &mut Cx) -> Result<u16> { Ok(cx.http().get("https://shop.example/7").send().await?.status) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<stock>()
    ///     .http_seq("GET", "*", [Err::<u16, _>(Failure::retryable("reset")), Ok(200)]);
    /// let report = sim.run(()).await;
    /// assert_eq!(report.assert_completed(), &200);
    /// assert_eq!(report.effect_calls("http.get"), 2);
    /// # }
    /// ```
    pub fn http_seq<A: HttpAnswer + Clone + Send + Sync + 'static>(
        self,
        method: &str,
        url: &str,
        answers: impl IntoIterator<Item = A>,
    ) -> Self {
        let first = answers.into_iter().map(|answer| answering(move |_| answer.clone())).collect();
        self.server(method, url, Answers { first, then: None })
    }

    fn server(self, method: &str, url: &str, answers: Answers) -> Self {
        self.script(|scripts| scripts.http.push(HttpScript::new(method, url, answers)))
    }
}
