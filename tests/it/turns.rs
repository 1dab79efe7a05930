//! The order in which pieces of workflow code run: the same in a first run and in every replay, wherever a run was evicted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether::definition::Workflow;
use aether::prelude::*;
use aether_testing::Sim;

/// What branches wrote, in the order in which they did: something that they share, and that no lint sees.
#[derive(Clone, Default)]
struct Board(Arc<Mutex<Vec<String>>>);

impl Board {
    fn note(&self, who: impl std::fmt::Display, what: &str) {
        self.0.lock().unwrap().push(format!("{who} {what}"));
    }

    fn read(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// Look something up.
#[step(effect = "read")]
async fn look(_cx: &mut StepCx, what: u64) -> Result<u64> {
    Ok(what)
}

/// How long each branch waits, and of which time unit.
type Waits = (Vec<u64>, Duration);

fn wait((waits, unit): &Waits, at: u64) -> Duration {
    *unit * u32::try_from(waits[usize::try_from(at).unwrap() % waits.len()]).unwrap()
}

#[workflow]
async fn items(cx: &mut Cx, limited: (usize, Waits)) -> Result<Vec<String>> {
    let (limit, waits) = limited;
    let board = Board::default();
    let item = async |cx: &mut Cx, at: u64| -> Result<()> {
        board.note(at, "begins");
        cx.random().await;
        board.note(at, "has drawn");
        if at % 3 == 2 {
            return Ok(());
        }
        look(cx, at).await?;
        board.note(at, "has looked");
        cx.sleep(wait(&waits, at)).await;
        board.note(at, "has slept");
        cx.now().await;
        board.note(at, "ends");
        Ok(())
    };
    for ended in cx.each(0..7, item).limit(limit).await {
        ended?;
    }
    Ok(board.read())
}

#[workflow]
async fn joined(cx: &mut Cx, waits: Waits) -> Result<Vec<String>> {
    let board = Board::default();
    let (left, middle, right) = cx
        .join((
            async |cx: &mut Cx| -> Result<()> {
                board.note("left", "begins");
                look(cx, 10).await?;
                board.note("left", "has looked");
                let (first, second) = cx
                    .join((
                        async |cx: &mut Cx| {
                            board.note("first", "begins");
                            let looked = look(cx, 0).await;
                            board.note("first", "has looked");
                            looked
                        },
                        async |cx: &mut Cx| {
                            board.note("second", "begins");
                            cx.sleep(wait(&waits, 1)).await;
                            board.note("second", "has slept");
                            look(cx, 1).await
                        },
                    ))
                    .await;
                board.note("left", "ends");
                first.and(second)?;
                Ok(())
            },
            async |cx: &mut Cx| -> Result<()> {
                board.note("middle", "begins");
                cx.uuid().await;
                board.note("middle", "has drawn");
                let won = cx
                    .race((
                        async |cx: &mut Cx| {
                            look(cx, 2).await?;
                            cx.sleep(wait(&waits, 2)).await;
                            look(cx, 3).await
                        },
                        async |cx: &mut Cx| {
                            cx.sleep(wait(&waits, 3)).await;
                            look(cx, 4).await
                        },
                    ))
                    .await;
                board.note("middle", "ends");
                won?;
                Ok(())
            },
            async |cx: &mut Cx| -> Result<()> {
                board.note("right", "begins");
                let item = async |cx: &mut Cx, at: u64| -> Result<()> {
                    board.note(at, "begins");
                    look(cx, at).await?;
                    board.note(at, "has looked");
                    cx.sleep(wait(&waits, at)).await;
                    board.note(at, "ends");
                    Ok(())
                };
                for ended in cx.each(3..6, item).limit(2).await {
                    ended?;
                }
                board.note("right", "ends");
                Ok(())
            },
        ))
        .await;
    left.and(middle).and(right)?;
    Ok(board.read())
}

const SPEEDS: [[u64; 7]; 4] =
    [[1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1], [3, 17, 4, 29, 2, 13, 5], [31, 2, 11, 3, 19, 5, 7]];

/// Runs it without and with an eviction at each wait; what each run did in its order, its replay does in the same order.
async fn in_turn<W: Workflow<Output = Vec<String>>>(input: impl Fn(Duration) -> W::Input) {
    for unit in [Duration::from_micros(100), Duration::from_secs(3_600)] {
        let report = Sim::new::<W>().stub::<look>(Ok).run(input(unit)).await;
        let board = report.assert_completed();
        let verified = report.verified.as_ref().unwrap();
        assert!(verified.is_ok(), "{unit:?}: {}\n{board:#?}", verified.as_ref().unwrap_err());
    }
}

#[tokio::test]
async fn items_of_an_each_begin_in_the_same_order_in_a_replay_wherever_it_was_evicted() {
    for speeds in SPEEDS {
        for limit in 1..=8 {
            in_turn::<items>(|unit| (limit, (speeds.into(), unit))).await;
        }
    }
}

#[tokio::test]
async fn branches_begin_in_the_same_order_in_a_replay_wherever_it_was_evicted() {
    for speeds in SPEEDS {
        in_turn::<joined>(|unit| (speeds.into(), unit)).await;
    }
}

#[workflow]
async fn shown(cx: &mut Cx) -> Result<String> {
    let before = format!("{cx:?}");
    look(cx, 1).await?;
    cx.sleep(Duration::from_secs(3_600)).await;
    let (left, _) =
        cx.join((async |cx: &mut Cx| format!("{cx:?}"), async |cx: &mut Cx| look(cx, 2).await)).await;
    Ok(format!("{before} {left} {cx:?}"))
}

#[tokio::test]
async fn a_context_shows_what_a_replay_shows_too() {
    let report = Sim::new::<shown>().stub::<look>(Ok).id("r").check_deterministic(()).await;
    assert!(report.verified.as_ref().unwrap().is_ok());
    let all = r#"Cx { run: RunId(r), workflow: "shown", scope: "", .. }"#;
    assert!(report.assert_completed().starts_with(all), "{}", report.assert_completed());
}
