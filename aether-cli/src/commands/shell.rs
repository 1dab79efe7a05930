//! `completions`, `man` and `schema`.

use std::collections::BTreeMap;

use clap_complete::Shell;

use crate::args::store::Schema;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::schemas::schemas;
use crate::session::Session;

pub(crate) fn completions(
    session: &Session,
    shell: Shell,
    mut command: clap::Command,
) -> Result<Exit, CliError> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    session.screen.block(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(crate) fn man(session: &Session, command: &clap::Command) -> Result<Exit, CliError> {
    let mut page = Vec::new();
    let mut command = command.clone();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    append_subcommands(&command, &mut page)?;
    session.screen.block(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}

/// All commands on one page: each with what it is for and its options.
fn append_subcommands(command: &clap::Command, page: &mut Vec<u8>) -> Result<(), CliError> {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let man = clap_mangen::Man::new(inner.clone());
        let name = inner.get_bin_name().unwrap_or_else(|| inner.get_name()).to_uppercase();
        page.extend_from_slice(format!(".SH \"{name}\"\n").as_bytes());
        if inner.has_subcommands() {
            append_subcommands(inner, page)?;
            continue;
        }
        man.render_description_section(&mut *page)?;
        man.render_options_section(&mut *page)?;
    }
    Ok(())
}

pub(crate) fn schema(session: &Session, args: &Schema) -> Result<Exit, CliError> {
    let schemas: BTreeMap<_, _> = schemas().into_iter().collect();
    if args.command.is_empty() {
        session.screen.json(&schemas)?;
        return Ok(Exit::Done);
    }
    let name = args.command.join(" ");
    let Some(schema) = schemas.get(&*name) else {
        let names: Vec<_> = schemas.keys().copied().collect();
        let what = format!("no schema is named `{name}`");
        return Err(CliError::new(Exit::NotFound, what).with_help(format!("there are: {}", names.join(", "))));
    };
    session.screen.json(schema)?;
    Ok(Exit::Done)
}
