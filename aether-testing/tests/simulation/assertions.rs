//! Assertions: what they say, and that they fail at the line that makes them.

use aether::prelude::*;
use aether::view::Status;
use aether_testing::Sim;

use super::{DAY, not_stubbed, panic_of};

/// Look a word up.
#[step(effect = "read")]
async fn look_up(_cx: &mut StepCx, word: String) -> Result<u32> {
    not_stubbed(word)
}

/// Wait, and look up.
#[workflow]
async fn word(cx: &mut Cx) -> Result<String> {
    let id = cx.uuid().await;
    cx.sleep(2 * DAY).await;
    let length = look_up(cx, id.to_string()).await?;
    Ok(format!("{length} at {}", cx.now().await))
}

fn words() -> Sim<word> {
    Sim::new::<word>().stub::<look_up>(|word| Ok(word.len() as u32))
}

#[tokio::test]
async fn a_journal_is_the_same_whenever_it_began_and_whatever_it_drew() {
    let report = words().run(()).await;
    let elsewhere = words().at("2031-07-08T09:10:11Z".parse().unwrap()).seed(7).run(()).await;
    assert_eq!(report.journal(), elsewhere.journal());
    assert_ne!(report.events, elsewhere.events);
    report.assert_journal(
        r#"
        run_created
        uuid_recorded 0:uuid value="uuid#1"
        timer_scheduled 1:sleep due="+2d"
        run_waiting
        run_requeued
        timer_fired 1:sleep
        node_started 2:look_up
        command_committed 2:look_up
        node_finished 2:look_up
        step_committed 2:look_up
        time_recorded 3:now
        run_completed
        "#,
    );
    report.assert_journal(&report.journal());
}

#[tokio::test]
async fn a_failed_assertion_is_at_the_line_that_makes_it() {
    let (said, (file, line)) = panic_of(async {
        let report = words().run(()).await;
        report.assert_effects(&["uuid", "look_up", "now", "sleep"]);
    })
    .await;
    assert!(said.contains("  + sleep\n    look_up\n") && said.contains("- sleep"), "{said}");
    assert_eq!((file.as_str(), line), (file!(), line!() - 4));

    let (said, at) = panic_of(async {
        words().run(()).await.assert_called_with::<look_up>(&["x".into()]);
    })
    .await;
    assert!(said.contains("- \"x\"") && said.contains("+ \""), "{said}");
    assert_eq!(at, (file!().to_owned(), line!() - 4));

    let (said, at) = panic_of(async {
        words().run(()).await.assert_journal("run_created\nrun_completed");
    })
    .await;
    assert!(said.contains("+ uuid_recorded 0:uuid") && said.contains("  run_created\n"), "{said}");
    assert_eq!(at, (file!().to_owned(), line!() - 4));

    let (said, at) = panic_of(async {
        words().run(()).await.assert_status(Status::Failed);
    })
    .await;
    assert!(said.contains("not failed") && said.contains("run_completed"), "{said}");
    assert_eq!(at, (file!().to_owned(), line!() - 4));

    let (said, at) = panic_of(async {
        let _never = words().run(()).await.assert_failed();
    })
    .await;
    assert!(said.contains("the run completed"), "{said}");
    assert_eq!(at, (file!().to_owned(), line!() - 4));
}

#[tokio::test]
async fn a_simulation_without_a_report_fails_at_the_line_that_awaits_it() {
    let (said, at) = panic_of(async {
        let _report = Sim::new::<word>().run(()).await;
    })
    .await;
    assert!(said.contains("has no stub") && !said.contains("simulated at"), "{said}");
    assert_eq!(at, (file!().to_owned(), line!() - 4));

    let (_, at) = panic_of(async {
        let sim = Sim::new::<word>();
        sim.crash_at_every_append(()).await;
    })
    .await;
    assert_eq!(at.0, file!());
    assert!((line!() - 6..line!() - 3).contains(&at.1), "{at:?}");

    // Somebody else polls it: then the text says where it was made.
    let (said, _) = panic_of(async {
        let running = Sim::new::<word>().check_deterministic(());
        if let Err(error) = tokio::spawn(running).await {
            std::panic::resume_unwind(error.into_panic());
        }
    })
    .await;
    assert!(said.contains(&format!("simulated at {}", file!())), "{said}");
}
