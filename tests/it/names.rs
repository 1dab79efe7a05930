//! Workflows of one name in different modules are told apart, also by a program that takes a run up later.

use aether::prelude::*;

mod one {
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn namesake(cx: &mut Cx) -> Result<u8> {
        cx.sleep(std::time::Duration::from_millis(40)).await;
        Ok(1)
    }
}

mod two {
    use aether::prelude::*;

    #[workflow]
    pub(super) async fn namesake(cx: &mut Cx) -> Result<u8> {
        cx.sleep(std::time::Duration::from_millis(40)).await;
        Ok(2)
    }
}

#[tokio::test]
async fn a_run_goes_on_with_the_workflow_of_its_module() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let engine = Engine::builder().sqlite(&path).start().await.unwrap();
    engine.start::<one::namesake>(()).id("one").await.unwrap();
    engine.start::<two::namesake>(()).id("two").await.unwrap();
    engine.shutdown().await.unwrap();

    let engine = Engine::builder().sqlite(&path).start().await.unwrap();
    assert_eq!(engine.handle::<one::namesake>("one").await.unwrap().result().await.unwrap(), 1);
    assert_eq!(engine.handle::<two::namesake>("two").await.unwrap().result().await.unwrap(), 2);
}
