//! `cx.version_each`: a loop whose body is changed while it runs, in the round that is under way and in later ones.

use aether::prelude::*;

use super::builds::say;
use super::deploys::{marked, words};
use crate::seeds::kit::{Calls, Journal, Place, Rows, builder, created, in_time};

mod before {
    use super::*;

    #[workflow]
    pub(crate) async fn remind(cx: &mut Cx) -> Result<Vec<String>> {
        let mut said = vec![];
        for _ in 0..6 {
            said.push(say(cx, "wait").await?);
            said.push(say(cx, "mail").await?);
        }
        Ok(said)
    }
}

mod after {
    use super::*;

    #[workflow]
    pub(crate) async fn remind(cx: &mut Cx) -> Result<Vec<String>> {
        let mut said = vec![];
        for _ in 0..6 {
            said.push(say(cx, "wait").await?);
            if cx.version_each("push", 1..=2).await == 2 {
                said.push(say(cx, "push").await?);
            } else {
                said.push(say(cx, "mail").await?);
            }
        }
        Ok(said)
    }
}

/// The build in `module` resumes the run of which `journal` was written.
async fn resume(journal: &Journal, build: &str) -> (Vec<String>, Journal) {
    let (place, journal) = (Place::memory(), journal.in_module(&format!("{}::{build}", module_path!())));
    journal.plant(&place.store, Rows::Follow).await;
    let engine = builder(&place.store, &Calls::default()).start().await.unwrap();
    let run = engine.find("remind").await.unwrap();
    let said = words(&in_time(run.end()).await.unwrap());
    engine.verify(run.id()).await.unwrap();
    engine.shutdown().await.unwrap();
    (said, Journal::read(&place.store, "remind").await)
}

#[tokio::test]
async fn a_round_is_finished_as_it_was_begun_and_later_ones_take_the_new_path() {
    let begun = Journal { run: "remind".into(), events: vec![created("remind", "{}")] };
    let (said, before) = resume(&begun, "before").await;
    assert_eq!(said.iter().filter(|word| *word == "mail").count(), 6);
    for position in 1..before.events.len() {
        let cut = before.first(position);
        let mails = cut.events.iter().filter(|event| event.kind() == "node_started");
        let mails =
            mails.filter(|event| event.command().is_some_and(|c| c.place().parse::<u32>().unwrap() % 2 == 1));
        let old = mails.count();
        let (said, after) = resume(&cut, "after").await;
        let rounds: Vec<&str> = said.iter().skip(1).step_by(2).map(String::as_str).collect();
        let expected: Vec<&str> = (0..6).map(|round| if round < old { "mail" } else { "push" }).collect();
        assert_eq!(rounds, expected, "{position}");
        // One record for each round from the change on.
        let marks = after.events.iter().filter(|event| event.kind() == "version_marked").count();
        assert_eq!((marks, marked(&after).len()), (6 - old, usize::from(old < 6)));
        assert_eq!(resume(&after.open(), "after").await.0, said);
    }
}
