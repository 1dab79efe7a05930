//! Pages of views: what a page holds is what the whole view has of these steps, however it came about.

use std::collections::BTreeSet;

use aether::engine::Limits;
use aether::id::{CommandId, RunId};
use aether::prelude::*;
use aether::store::event::Event;
use aether::view::{RunView, StepPage};

/// Holds pages of a journal against the view of the whole: of several sizes, each page, and pages that are chosen before, in
/// the middle and behind the events.
pub(crate) fn held_against_pages(events: &[Event]) -> Result<(), String> {
    let run = RunId::new("paged").unwrap();
    let whole = RunView::fold(run.clone(), events.iter().cloned());
    let count = whole.steps.len();
    for size in [1, 3, 7] {
        let mut pages: Vec<(StepPage, usize)> = Vec::new();
        let all = count.div_ceil(size).max(1);
        pages.extend((1..=all + 1).map(|number| (StepPage::number(number), number.min(all) - 1)));
        pages.push((StepPage::last(), all - 1));
        pages.push((StepPage::with(CommandId::new("99", "nowhere")), all - 1));
        let with = |(number, step): (usize, &aether::view::StepView)| {
            (StepPage::with(step.command.clone()), number / size)
        };
        pages.extend(whole.steps.iter().enumerate().map(with));
        for (at, (page, number)) in pages.into_iter().enumerate() {
            let (before, behind) = events.split_at(events.len() * (at % 3) / 2);
            let mut view = RunView::fold(run.clone(), before.iter().cloned()).page(page.clone().size(size));
            behind.iter().for_each(|event| view.apply(event.clone()));
            held_against(&whole, &view, number * size, size).map_err(|wrong| {
                format!("{page:?} of {size} steps, chosen after {} events: {wrong}", before.len())
            })?;
        }
    }
    Ok(())
}

/// Holds a page that begins with the step of this number against the whole view.
fn held_against(whole: &RunView, page: &RunView, first: usize, size: usize) -> Result<(), String> {
    let steps = whole.steps.get(first..whole.steps.len().min(first + size)).unwrap_or_default();
    let commands: BTreeSet<&CommandId> = steps.iter().map(|step| &step.command).collect();
    let same = |what: &str, found: String, expected: String| match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found}, and not {expected}")),
    };
    let told = |value: &dyn std::fmt::Debug| format!("{value:?}");
    same("steps", told(&page.steps), told(&steps))?;
    let place = (page.first_step(), page.step_count());
    same("place", told(&place), told(&(first, whole.step_count())))?;
    let effects: Vec<_> = whole.effects.iter().filter(|effect| commands.contains(&effect.command)).collect();
    same("effects", told(&page.effects), told(&effects))?;
    let executions: Vec<_> = whole.executions.iter().filter(|own| commands.contains(&own.command)).collect();
    same("executions", told(&page.executions), told(&executions))?;
    let (mut people, mut all) = (page.for_people(), whole.for_people());
    all.steps.retain(|step| commands.contains(&step.step));
    same("what people see", told(&people.steps), told(&all.steps))?;
    (people.steps, all.steps) = (Vec::new(), Vec::new());
    same("what people see of the run", told(&people), told(&all))?;
    let rest = |view: &RunView| {
        let of_run = (&view.workflow, view.version, &view.input, view.status, &view.ending, &view.parked);
        let ended = (
            &view.lifecycle,
            view.position,
            view.generation,
            &view.history,
            &view.result,
            &view.uncompensated,
        );
        format!("{of_run:?} {ended:?} {:?}", view.budgets())
    };
    same("all else", rest(page), rest(whole))?;
    for step in steps {
        same("the step", told(&page.step(&step.command)), told(&whole.step(&step.command)))?;
    }
    Ok(())
}

/// Draw so many times.
#[workflow]
async fn draws(cx: &mut Cx, times: u32) -> Result<u32> {
    for _ in 0..times {
        cx.uuid().await;
    }
    Ok(times)
}

/// Pay under a key, and say which.
#[step(effect = "tool")]
async fn pay(cx: &mut StepCx) -> Result<String> {
    Ok(format!("paid as {}", cx.idempotency_key()))
}

/// Repeat what was said.
#[step(effect = "read")]
async fn repeat(_cx: &mut StepCx, said: &str) -> Result<String> {
    Ok(said.to_owned())
}

/// Pay, and pass the word on.
#[workflow]
async fn pays(cx: &mut Cx, _none: ()) -> Result<String> {
    let said = pay(cx).await?;
    cx.uuid().await;
    Ok(repeat(cx, &said).await?)
}

async fn engine() -> Engine {
    let limits = Limits { history: u64::MAX, ..Limits::default() };
    Engine::builder().memory().limits(limits).start().await.unwrap()
}

async fn events(engine: &Engine, run: &RunId) -> Vec<Event> {
    let frames = engine.store().load(run, 0).await.unwrap();
    frames.iter().flat_map(|frame| frame.events().unwrap()).collect()
}

#[tokio::test]
async fn a_page_of_a_journal_that_is_too_long_for_a_snapshot_is_that_of_the_whole() {
    let engine = engine().await;
    let run = engine.start::<draws>(50_500).id("long").await.unwrap();
    assert_eq!(run.result().await.unwrap(), 50_500);
    let whole = engine.view(run.id()).await.unwrap();
    assert!(
        engine.store().snapshot(run.id()).await.unwrap().is_none(),
        "the journal is short enough for a snapshot"
    );
    let last = whole.steps.last().unwrap().command.clone();
    for (page, first) in [
        (StepPage::number(1), 0),
        (StepPage::number(300), 29_900),
        // Behind the place where a short journal would end.
        (StepPage::number(504), 50_300),
        (StepPage::last(), 50_400),
        (StepPage::with(last), 50_400),
    ] {
        let page = engine.view_page(run.id(), page.size(100)).await.unwrap();
        held_against(&whole, &page, first, 100).unwrap();
        assert_eq!(page.history, whole.history);
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_page_of_a_short_journal_leaves_a_snapshot_of_the_whole() {
    let engine = engine().await;
    let run = engine.start::<draws>(1_000).id("short").await.unwrap();
    run.result().await.unwrap();
    let page = engine.view_page(run.id(), StepPage::number(2)).await.unwrap();
    assert!(engine.store().snapshot(run.id()).await.unwrap().is_some());
    let whole = engine.view(run.id()).await.unwrap();
    assert_eq!(whole.steps.len(), 1_000);
    held_against(&whole, &page, 200, 200).unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_run_that_continued_is_paged_as_its_last_generation() {
    let engine = engine().await;
    let (one, two) = (
        engine.start::<draws>(9).id("one").await.unwrap(),
        engine.start::<draws>(5).id("two").await.unwrap(),
    );
    one.result().await.unwrap();
    two.result().await.unwrap();
    let mut both = events(&engine, one.id()).await;
    held_against_pages(&both).unwrap();
    both.extend(events(&engine, two.id()).await);
    held_against_pages(&both).unwrap();
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn people_see_no_key_of_a_step_that_is_on_another_page() {
    let engine = engine().await;
    let run = engine.start::<pays>(()).id("pays").await.unwrap();
    let said = run.result().await.unwrap();
    let key = said.strip_prefix("paid as ").unwrap();
    let all = events(&engine, run.id()).await;
    held_against_pages(&all).unwrap();
    let page = engine.view_page(run.id(), StepPage::last().size(1)).await.unwrap();
    assert!(page.steps.iter().all(|step| step.command.name() == "repeat"), "{:?}", page.steps);
    let shown = serde_json::to_string(&page.for_people()).unwrap();
    assert!(shown.contains("paid as") && !shown.contains(key), "{shown}");
    engine.shutdown().await.unwrap();
}
