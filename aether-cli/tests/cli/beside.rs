//! Beside a program that works: it is never in the way, and never waits in vain.

use crate::desk::{Worker, builder, count};
use crate::kit::Desk;

/// Runs that progress, and their steps.
const RUNS: usize = 80;
const STEPS: u32 = 40;

#[tokio::test(flavor = "multi_thread")]
async fn no_command_is_refused_while_runs_progress_and_none_of_them_suffers() {
    let desk = Desk::new();
    let client = builder(&desk.db).client().start().await.unwrap();
    for number in 0..RUNS {
        client.start::<count>(STEPS).id(format!("count-{number}")).await.unwrap();
    }
    let _worker = Worker::start(&desk.db);
    loop {
        let list = desk.json("runs list", &["--limit", "100"]);
        let runs = list["runs"].as_array().unwrap();
        assert_eq!(runs.len(), RUNS);
        desk.json("runs show", &["count-7"]);
        desk.json("runs history", &["count-7"]);
        desk.json("inbox list", &[]);
        desk.json("db status", &[]);
        // A write, of which the newest run may have ended meanwhile.
        let said = desk.cli(&["signal", "count-79", "unheard", "1"]);
        assert!([0, 5].contains(&said.exit), "{}", said.err);
        if runs.iter().all(|run| run["status"] == "completed") {
            break;
        }
    }
    assert_eq!(desk.json("runs wait", &["count-0", "count-79"])["runs"][1]["result"], STEPS);
    client.shutdown().await.unwrap();
}
