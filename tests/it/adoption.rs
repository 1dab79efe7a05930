//! Builds that change under open runs: real programs, compiled from edits of one text, on one database after each other and
//! beside each other.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod deploys;
mod kit;

use kit::{Agent, Home, is_paid, one_waiting};

#[test]
fn a_read_before_a_question_in_a_branch_of_a_callee_parks_the_run_and_the_persons_word_is_kept() {
    let home = one_waiting(Home::file("branch.db"));
    let mut edited = Agent::start("read_before_question", &home);
    edited.until("parked", "1");
    let why = edited.ask("why claim-7");
    assert!(why.contains("approval") && why.contains("agent.rs:"), "{why}");
    assert!(why.contains("needs workflow `claim`"), "{why}");
    assert_eq!(edited.ask("status claim-7"), "waiting");
    assert_eq!(edited.ask("approve claim-7"), "approved");
    let why = edited.ask("why claim-7");
    assert!(why.contains("1 message is kept for it"), "{why}");
    let stopped = edited.ask("end claim-7");
    assert!(stopped.starts_with("Stopped(Parked"), "{stopped}");
    let mut client = Agent::with("base", &home, "client");
    let hold = client.ask("hold claim-7");
    assert!(hold.starts_with("parked since ") && hold.contains("rate"), "{hold}");
    client.stop();
    edited.stop();
    assert_eq!(home.calls("pay"), 0);
    let mut base = Agent::start("base", &home);
    let end = base.ask("end claim-7");
    assert!(is_paid(&end), "{end}");
    assert_eq!(base.ask("parked"), "0");
    base.stop();
    assert_eq!((home.calls("reserve"), home.calls("pay")), (1, 1));
}

#[test]
fn an_edit_behind_the_place_where_a_run_stands_is_adopted_and_goes_back_and_forth() {
    let home = one_waiting(Home::file("adopts.db"));
    let mut check = Agent::with("later", &home, "client");
    let report = check.ask("check");
    assert!(
        report.starts_with("1 open runs: 0 fit, 1 fit other code and would be adopted, 0 would be parked"),
        "{report}"
    );
    check.stop();
    // v3 -> v2 -> v3, without a word from anybody in between.
    for build in ["later", "base", "read_before_consent", "later", "base"] {
        let mut agent = Agent::start(build, &home);
        agent.until("parked", if build == "read_before_consent" { "1" } else { "0" });
        agent.stop();
    }
    let mut agent = Agent::start("later", &home);
    assert_eq!(agent.ask("approve claim-7"), "approved");
    let end = agent.ask("end claim-7");
    assert!(is_paid(&end), "{end}");
    agent.stop();
    assert_eq!((home.calls("reserve"), home.calls("pay")), (1, 1));
}

#[test]
fn a_thousand_runs_that_wait_are_listed_as_parked_and_resume_with_the_words_given_meanwhile() {
    let home = Home::file("thousand.db");
    let mut base = Agent::start("base", &home);
    base.ask("many 1000");
    base.until("waiting", "1000");
    base.kill();
    let mut edited = Agent::start("read_before_consent", &home);
    let took = edited.until("parked", "1000");
    println!("1000 runs parked after {took:?}");
    for number in 0..20 {
        assert_eq!(edited.ask(&format!("approve claim-{number}")), "approved");
    }
    edited.stop();
    assert_eq!(home.calls("pay"), 0);
    let mut base = Agent::start("base", &home);
    base.until("parked", "0");
    for number in 0..20 {
        let end = base.ask(&format!("end claim-{number}"));
        assert!(end.contains(&format!("paid {number}")), "{end}");
    }
    base.until("waiting", "980");
    base.stop();
    assert_eq!((home.calls("reserve"), home.calls("pay")), (1000, 20));
}

#[test]
fn a_start_that_is_to_refuse_names_the_runs_and_changes_nothing() {
    let home = one_waiting(Home::file("refuse.db"));
    let refused = Agent::with("read_before_question", &home, "refuse");
    assert!(refused.greeting.starts_with("refused 1 open runs do not fit"), "{}", refused.greeting);
    let mut names = vec![refused.greeting.clone()];
    names.extend(refused.output.iter());
    assert!(names.iter().any(|line| line.contains("`claim-7`") && line.contains("agent.rs:")), "{names:?}");
    let mut base = Agent::with("base", &home, "refuse");
    assert_eq!(base.ask("parked"), "0");
    assert_eq!(base.ask("approve claim-7"), "approved");
    assert!(is_paid(&base.ask("end claim-7")));
    base.stop();
}

#[test]
fn a_parked_run_whose_workflow_is_gone_can_be_cancelled_and_its_steps_are_undone() {
    let home = one_waiting(Home::file("gone.db"));
    let mut renamed = Agent::start("renamed", &home);
    renamed.until("parked", "1");
    let why = renamed.ask("why claim-7");
    assert!(why.contains("not linked into this program"), "{why}");
    renamed.stop();
    let mut edited = Agent::start("read_before_question", &home);
    edited.until("parked", "1");
    assert_eq!(edited.ask("cancel claim-7"), "asked");
    edited.until("status claim-7", "cancelled");
    assert_eq!(edited.ask("parked"), "0");
    edited.stop();
    assert_eq!((home.calls("reserve"), home.calls("give_back"), home.calls("pay")), (1, 1, 0));
}

#[test]
fn a_branch_that_lost_its_wait_parks_the_run_and_holds_up_no_other() {
    let home = one_waiting(Home::file("impatient.db"));
    let mut edited = Agent::start("impatient", &home);
    edited.until("parked", "1");
    assert_eq!(edited.ask("start 8"), "claim-8");
    edited.stop();
    let mut check = Agent::with("impatient", &home, "client");
    assert!(check.ask("check").contains("parks `claim-7`"));
    check.stop();
}

#[test]
fn a_parked_run_is_ended_also_by_a_build_that_has_none_of_its_code() {
    for (build, command) in [("renamed", "cancel"), ("other_input", "cancel"), ("renamed", "terminate")] {
        let home = one_waiting(Home::file(&format!("{build}-{command}.db")));
        let mut edited = Agent::start(build, &home);
        edited.until("parked", "1");
        assert_eq!(edited.ask(&format!("{command} claim-7")), "asked");
        edited.until("status claim-7", "cancelled");
        assert_eq!(edited.ask("parked"), "0");
        edited.stop();
        let undone = usize::from(command == "cancel");
        assert_eq!((home.calls("give_back"), home.calls("pay")), (undone, 0), "{build} {command}");
    }
}

#[test]
fn a_front_end_with_the_old_code_does_not_count_as_a_worker() {
    let home = one_waiting(Home::file("client.db"));
    let old = Agent::with("base", &home, "client");
    let mut edited = Agent::start("read_before_consent", &home);
    edited.until("parked", "1");
    edited.stop();
    old.stop();
}
