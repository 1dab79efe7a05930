//! Stubs of child runs: how they end without their code.
//!
//! Promise: the child's run exists, with its id, its input and its end; only its code is not run.

use aether_core::workflow::Workflow;

use super::sim::Sim;

/// Stubs of child runs.
impl<W: Workflow> Sim<W> {
    /// Ends every child run of the workflow `C` with what `answer` returns for its input: its value, or its error. The
    /// child's code is not run, so that nothing of what it calls needs a stub. This holds for `cx.child`, for
    /// `cx.start_child`, and for children of children; not for the simulated run itself.
    ///
    /// The child's run exists as it would otherwise: its id is taken, it has its labels and its budget, and it is replayed.
    /// It takes nothing of its budget, and no time. The closure is called again when the child is resumed after a crash, so
    /// it must return the same for the same input.
    ///
    /// ```
    /// # use aether::prelude::*;
    /// # use aether_testing::Sim;
    /// # #[step(effect = "tool")] async fn print(cx: &mut StepCx, text: String) -> Result<u32> { unreachable!() }
    /// #[workflow]
    /// async fn chapter(cx: &mut Cx, number: u32) -> Result<u32> {
    ///     Ok(print(cx, format!("chapter {number}")).await?)
    /// }
    ///
    /// #[workflow]
    /// async fn book(cx: &mut Cx) -> Result<u32> {
    ///     let first = cx.child::<chapter>(1).await?;
    ///     let second = cx.child::<chapter>(2).await.unwrap_or(0);
    ///     Ok(first + second)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let sim = Sim::new::<book>().stub_child::<chapter>(|number| match number {
    ///     1 => Ok(30),
    ///     _ => Err(Failure::permanent("the paper is used up")),
    /// });
    /// assert_eq!(sim.run(()).await.assert_completed(), &30);
    /// # }
    /// ```
    pub fn stub_child<C: Workflow>(
        self,
        answer: impl Fn(C::Input) -> Result<C::Output, C::Error> + Send + Sync + 'static,
    ) -> Self {
        self.script(|scripts| scripts.children.insert::<C>(answer))
    }
}
