//! Orders of concurrent branches: what depends on them is found, and what does not is left in peace.

use std::sync::Mutex;

use aether::prelude::*;
use aether_testing::{Sim, SimError};

/// Look something up.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx, what: u32) -> Result<u32> {
    Err(Failure::permanent(what))
}

/// Change something.
#[step(effect = "tool", idempotent)]
async fn change(_cx: &mut StepCx, what: u32) -> Result<u32> {
    Err(Failure::permanent(what))
}

/// What branches should not share.
#[derive(Default)]
struct List(Mutex<Vec<u32>>);

impl List {
    fn push(&self, item: u32) {
        self.0.lock().unwrap().push(item);
    }

    fn items(&self) -> Vec<u32> {
        self.0.lock().unwrap().clone()
    }
}

/// Branches that write into one list.
#[workflow]
async fn shared(cx: &mut Cx) -> Result<Vec<u32>> {
    let list = &List::default();
    cx.each(0..3, async |cx: &mut Cx, item| {
        let found = look(cx, item).await?;
        list.push(found);
        Ok::<_, Failure>(())
    })
    .await;
    Ok(list.items())
}

#[tokio::test]
async fn a_list_that_branches_share_is_found() {
    let sim = Sim::new::<shared>().stub::<look>(Ok);
    let error = sim.try_every_interleaving(100, ()).await.unwrap_err();
    let SimError::Order { broken, reproduce, one, other, .. } = &error else { panic!("{error}") };
    assert!(broken.starts_with("the run is "), "{error}");
    assert_ne!(one, other);
    assert!(reproduce.starts_with("AETHER_ORDER="), "{reproduce}");
    assert!(reproduce.ends_with("cargo test orders::a_list_that_branches_share_is_found"), "{reproduce}");
}

/// Each branch has its own value, its own draws, and two steps.
#[workflow]
async fn apart(cx: &mut Cx) -> Result<Vec<u64>> {
    let done = cx
        .each(0..3, async |cx: &mut Cx, item| {
            let found = look(cx, item).await?;
            let drawn = cx.random().await % 100;
            Ok::<_, Failure>(u64::from(change(cx, found).await?) + drawn)
        })
        .await;
    done.into_iter().collect()
}

#[tokio::test]
async fn branches_that_share_nothing_have_one_outcome() {
    let sim = Sim::new::<apart>().stub::<look>(Ok).stub::<change>(Ok);
    let report = sim.every_interleaving(200, ()).await;
    println!("{report}");
    // Three branches with two bodies each: 6! / (2! 2! 2!) orders.
    assert_eq!((report.orders, report.exhaustive, report.outcomes), (90, true, 1));
    assert_eq!(report.most_at_once, 3);
    assert!(report.seeds.is_empty());
}

#[tokio::test]
async fn orders_beyond_the_limit_are_drawn_from_seeds() {
    let sim = Sim::new::<apart>().stub::<look>(Ok).stub::<change>(Ok).seed(7);
    let report = sim.every_interleaving(20, ()).await;
    assert!(!report.exhaustive && report.orders > 20, "{report}");
    assert_eq!(report.seeds.len(), 20);
    assert_eq!(report.seeds.first(), Some(&7));
}

/// The first of two to come back, then another step.
#[workflow]
async fn raced(cx: &mut Cx) -> Result<u32> {
    let first = cx
        .race((
            async |cx: &mut Cx| -> Result<u32> { Ok(look(cx, 1).await?) },
            async |cx: &mut Cx| -> Result<u32> { Ok(look(cx, 2).await?) },
        ))
        .await?;
    Ok(change(cx, first).await?)
}

#[tokio::test]
async fn a_race_has_one_outcome_for_each_winner() {
    let sim = Sim::new::<raced>().stub::<look>(Ok).stub::<change>(Ok);
    let report = sim.every_interleaving(50, ()).await;
    assert_eq!((report.orders, report.exhaustive, report.outcomes), (2, true, 2));
}

/// A child that changes something.
#[workflow]
async fn child(cx: &mut Cx, what: u32) -> Result<u32> {
    Ok(change(cx, what).await?)
}

/// Children beside a branch of two steps.
#[workflow]
async fn family(cx: &mut Cx) -> Result<(u32, u32, u32)> {
    let (one, two, own) = cx
        .join((
            async |cx: &mut Cx| cx.child::<child>(1).await,
            async |cx: &mut Cx| cx.child::<child>(2).await,
            async |cx: &mut Cx| -> Result<u32> { Ok(look(cx, 3).await? + look(cx, 4).await?) },
        ))
        .await;
    Ok((one?, two?, own?))
}

#[tokio::test]
async fn children_come_back_in_any_order() {
    let sim = Sim::new::<family>().stub::<look>(Ok).stub::<change>(Ok);
    let report = sim.every_interleaving(100, ()).await;
    println!("{report}");
    assert!(report.exhaustive && report.orders >= 12 && report.outcomes == 1, "{report}");
}

#[test]
fn the_order_in_the_environment_is_tried_alone() {
    let said = crate::boundaries::again("orders::a_list_that_branches_share_is_found", "AETHER_ORDER", "2.1");
    assert!(said.contains("AETHER_ORDER=2.1: sim 0.i2.0:look#0"), "{said}");
    let said = crate::boundaries::again("orders::a_list_that_branches_share_is_found", "AETHER_ORDER", "two");
    assert!(said.contains("`two` is no order"), "{said}");
}
