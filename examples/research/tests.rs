//! The agent on the simulation: eight tests to copy. They need no network, no file and no time.

use std::time::Duration;

use aether::people::Approvals;
use aether::prelude::*;
use aether_testing::{Reply, Sim, call_named, call_tool, say};

use crate::agent::{Brief, research};
use crate::report::Receipt;
use crate::tools::{search_text, write_report};
use crate::tree::{Hit, Hits};

const THREE_DAYS: Duration = Duration::from_secs(3 * 24 * 3600);

fn brief() -> Brief {
    Brief { question: "Where is the login?".into(), tree: "src".into(), report: "report.md".into() }
}

fn receipt() -> Receipt {
    Receipt { path: "report.md".into(), bytes: 14 }
}

fn reports() -> Reply {
    call_tool::<write_report>(("Login".into(), "src/login.rs:7".into()))
}

/// The model searches, reports and answers; the tools find one place and write one report.
fn scripted(sim: Sim<research>) -> Sim<research> {
    let hit = Hit { path: "src/login.rs".into(), line: 7, text: "fn login()".into() };
    sim.conversation(
        "research",
        [call_tool::<search_text>("login".into()), reports(), say("In src/login.rs.")],
    )
    .stub::<search_text>(move |text| Ok(Hits { text, hits: vec![hit.clone()], lines: 1, files: 1 }))
    .stub::<write_report>(|_| Ok(receipt()))
}

#[aether::test]
async fn it_searches_reports_and_answers(sim: Sim<research>) {
    let report = scripted(sim).run(brief()).await;
    assert_eq!(report.assert_completed().answer, "In src/login.rs.");
    report.assert_effects(&["llm.research", "search_text", "llm.research", "write_report", "llm.research"]);
    report.assert_called_with::<write_report>(&[("Login".into(), "src/login.rs:7".into())]);
}

#[aether::test]
async fn a_search_that_fails_is_tried_again(sim: Sim<research>) {
    let sim = scripted(sim).fail_times::<search_text>(2, Failure::retryable("the disk is busy"));
    let report = sim.run(brief()).await;
    report.assert_completed();
    report.assert_calls::<search_text>(3);
}

#[aether::test]
async fn a_model_that_talks_nonsense_is_told_so(sim: Sim<research>) {
    let nonsense =
        [call_named("grep", "{}"), call_named("search_text", "login, please"), reports(), say("Done.")];
    let report = scripted(sim).conversation("research", nonsense).run(brief()).await;
    assert_eq!(report.assert_completed().turns, 4);
    let told = format!("{:?}", report.model_requests("research")[2].messages);
    assert!(
        told.contains("there is no tool `grep`") && told.contains("bad arguments for `search_text`"),
        "{told}"
    );
    report.assert_calls::<search_text>(0);
}

#[aether::test]
async fn a_person_may_refuse_the_report_or_edit_it(sim: Sim<research>) {
    let asked = scripted(sim).approvals(Approvals::new().step("write_report"));
    let refused = asked.clone().rejects::<write_report>("not on a Friday").run(brief()).await;
    assert!(refused.assert_failed().to_string().contains("not on a Friday"));
    refused.assert_calls::<write_report>(0);

    let edited = asked.edits::<write_report>(|(_, markdown)| ("Sign-in".into(), markdown)).run(brief()).await;
    edited.assert_completed();
    edited.assert_called_with::<write_report>(&[("Sign-in".into(), "src/login.rs:7".into())]);
}

#[aether::test]
async fn a_person_may_take_days(sim: Sim<research>) {
    let asked = scripted(sim).approvals(Approvals::new().step("write_report"));
    let report = asked.approves::<write_report>("ann").people_take(THREE_DAYS).run(brief()).await;
    report.assert_completed();
    report.assert_took(THREE_DAYS);
}

#[aether::test(timeout = "10m")]
async fn it_survives_a_crash_at_every_write(sim: Sim<research>) {
    let report = scripted(sim).crash_at_every_append(brief()).await;
    assert!(report.writes > 6, "{report:?}");
}

#[aether::test]
async fn a_report_of_which_nobody_knows_is_not_written_again(sim: Sim<research>) {
    let doubtful = scripted(sim).in_doubt::<write_report>();
    let report = doubtful.run(brief()).await;
    assert!(report.assert_failed().to_string().contains("not known whether `write_report` happened"));
    report.assert_calls::<write_report>(1);

    let found = doubtful.stub_probe::<write_report>(|_| Probe::Happened(receipt())).run(brief()).await;
    assert_eq!(found.assert_completed().report, receipt());
}

#[aether::test]
async fn its_journal_is_this(sim: Sim<research>) {
    scripted(sim).run(brief()).await.assert_journal(include_str!("tests.journal"));
}
