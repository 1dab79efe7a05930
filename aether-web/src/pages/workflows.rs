//! The workflows that this program can advance: their states as a drawing, with the places of the runs that wait.

use std::collections::BTreeMap;

use aether_core::definition::Definition;
use aether_core::store::{RunFilter, WaitFilter};
use askama::Template;

use crate::access::visit::{part, place};
use crate::pages::graph::Graph;
use crate::pages::shell::{Answer, Ask, Shell, html};
use crate::text::time::count;

/// Waits whose places are looked at.
const WAITS: usize = 2_000;

#[derive(Debug, Template)]
#[template(path = "workflows.html")]
struct Page {
    shell: Shell,
    workflows: Vec<About>,
    is_cut: bool,
}

#[derive(Debug)]
struct About {
    name: String,
    version: u32,
    doc: String,
    site: String,
    open: String,
    failed: String,
    href: String,
    graph: Graph,
    marks: Vec<String>,
    allows: Vec<(String, String)>,
}

pub(crate) async fn page(ask: Ask) -> Answer {
    let engine = ask.shared.engine();
    let fault = |error| ask.store(&error);
    let waits = engine.all_pending(WaitFilter::default().limit(WAITS)).await.map_err(fault)?;
    // How many runs wait in each line of the source, by workflow.
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for wait in &waits.waits {
        if let Some(site) = &wait.site {
            *places.entry((&wait.workflow, site)).or_default() += 1;
        }
    }
    let mut workflows = Vec::new();
    for definition in engine.definitions() {
        let of = |filter: RunFilter| filter.workflow(&definition.name).version(definition.version);
        let open = engine.count(of(RunFilter::new().open())).await.map_err(fault)?;
        let failed = of(RunFilter::new().status(aether_core::contract::Status::Failed));
        let failed = engine.count(failed).await.map_err(fault)?;
        workflows.push(about(&ask, &definition, &places, (open, failed)));
    }
    html(&Page { shell: ask.shell("workflows", "Workflows").await?, workflows, is_cut: waits.next.is_some() })
}

fn about(
    ask: &Ask,
    definition: &Definition,
    places: &BTreeMap<(&str, &str), usize>,
    (open, failed): (u64, u64),
) -> About {
    let here = |state: u16| {
        let site = definition.site(state).unwrap_or_default();
        places.get(&(definition.name.as_str(), site.as_str())).copied().unwrap_or(0)
    };
    let mark = |change: &aether_core::definition::DefinedChange| {
        format!("{} {}..={}", change.name, change.from, change.to)
    };
    About {
        name: definition.name.clone(),
        version: definition.version,
        doc: definition.doc.clone(),
        site: format!("{}:{}", definition.file, definition.line),
        open: count(open),
        failed: count(failed),
        href: place(
            &ask.visit.base,
            &format!("/?workflow={}&version={}", part(&definition.name), definition.version),
        ),
        graph: Graph::of(definition, here),
        marks: definition.changes.iter().map(mark).collect(),
        allows: definition.allows.iter().map(|allow| (allow.what.clone(), allow.reason.clone())).collect(),
    }
}
