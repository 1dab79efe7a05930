//! `graph`.

use aether_core::definition::def::{END, EdgeKind, START};
use aether_core::definition::{DefinedState, Definition};
use aether_core::engine::Engine;

use crate::args::runs::{self, GraphFormat};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::code::Graph;
use crate::screen::{Screen, Tone};
use crate::session::Session;

pub(crate) async fn graph(session: &mut Session, args: &runs::Graph) -> Result<Exit, CliError> {
    let engine = session.look().await?;
    let (definition, known_from) = find(&engine, args).await?;
    if session.screen.is_json {
        let (workflow, version) = (definition.name.clone(), definition.version);
        let definition = definition.to_json();
        session.screen.json(&Graph { workflow, version, known_from: known_from.into(), definition })?;
        return Ok(Exit::Done);
    }
    match args.format {
        GraphFormat::Text => print(&session.screen, &definition)?,
        GraphFormat::Mermaid => session.screen.block(&definition.mermaid())?,
        GraphFormat::Dot => session.screen.block(&definition.dot())?,
    }
    Ok(Exit::Done)
}

/// The definition that the program has, or else the newest that the store has seen.
async fn find(engine: &Engine, args: &runs::Graph) -> Result<(Definition, &'static str), CliError> {
    let fits = |definition: &Definition| {
        definition.name == args.workflow && args.version.is_none_or(|version| definition.version == version)
    };
    let linked = engine.definitions().into_iter().filter(fits).max_by_key(|definition| definition.version);
    if let Some(definition) = linked {
        return Ok((definition, "program"));
    }
    let records = engine.store().definitions().await?;
    let mut names: Vec<_> =
        records.iter().map(|record| format!("{} v{}", record.workflow, record.version)).collect();
    names.sort_unstable();
    names.dedup();
    let of_name = records.into_iter().filter(|record| {
        record.workflow == args.workflow && args.version.is_none_or(|version| record.version == version)
    });
    let Some(record) = of_name.max_by_key(|record| (record.version, record.first_seen)) else {
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let what =
            format!("there is no workflow `{}` of that version here; known are: {known}", args.workflow);
        return Err(CliError::new(Exit::NotFound, what));
    };
    let definition = Definition::parse(record.definition.as_str())
        .map_err(|error| CliError::new(Exit::Failed, error.to_string()))?;
    Ok((definition, "store"))
}

fn print(screen: &Screen, definition: &Definition) -> Result<(), CliError> {
    screen.toned(&format!("{} v{}", definition.name, definition.version), Tone::Strong)?;
    screen
        .field("code", &format!("{} in {}:{}", definition.fingerprint, definition.file, definition.line))?;
    if !definition.doc.is_empty() {
        screen.field("what", definition.doc.trim())?;
    }
    screen.line("")?;
    screen.line("  start")?;
    arrows(screen, definition, START)?;
    for state in &definition.states {
        let branch = state.branch.map(|branch| format!("  [branch {branch}]")).unwrap_or_default();
        let class = state.class.map(|class| format!("  {}", class.as_str())).unwrap_or_default();
        screen.line(&format!("  s{}  {}  :{}{class}{branch}", state.state, state.name, state.line))?;
        arrows(screen, definition, state.state)?;
    }
    screen.line("  end")
}

/// Where control may go from a state.
fn arrows(screen: &Screen, definition: &Definition, from: u16) -> Result<(), CliError> {
    definition.edges.iter().filter(|edge| edge.from == from).try_for_each(|edge| {
        let why = match edge.kind {
            EdgeKind::Loop => " (again)",
            EdgeKind::Fork => " (fork)",
            EdgeKind::EarlyReturn => " (return)",
            _ => "",
        };
        let to = match edge.to {
            END => "end".to_owned(),
            number => match definition.states.get(usize::from(number)) {
                Some(DefinedState { name, .. }) => format!("s{number} {name}"),
                None => format!("s{number}"),
            },
        };
        screen.toned(&format!("      -> {to}{why}"), Tone::Faint)
    })
}
