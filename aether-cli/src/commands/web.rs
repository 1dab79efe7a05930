//! `web`.

use std::io::{self, Write as _};

use aether_core::engine::Engine;
use aether_web::{Actions, Options, Role, ServeError, Server, bind};

use crate::args::store::{Allowed, Web};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::files::ConsoleAddress;
use crate::session::Session;

/// Serves until the program is ended.
pub(crate) async fn web(session: &mut Session, args: &Web) -> Result<Exit, CliError> {
    let engine = session.engine().await?;
    let allowed = args.allow.iter().fold(Actions::NONE, |allowed, action| allowed | actions(*action));
    let role = if args.audit { Role::Audit } else { Role::People };
    let server = console(session, engine, args.port, Options::new().allow(allowed).role(role)).await?;
    let address = ConsoleAddress { url: server.url().to_owned() };
    if session.screen.is_json {
        session.screen.json(&address)?;
    } else {
        session.screen.line(&format!("open {} (it works once; Ctrl-C ends the console)", address.url))?;
    }
    server.run().await.map_err(failed)?;
    Ok(Exit::Done)
}

/// A console of this machine, for whoever is recorded.
pub(crate) async fn console(
    session: &Session,
    engine: Engine,
    port: u16,
    options: Options,
) -> Result<Server, CliError> {
    let options = options.bind(([127, 0, 0, 1], port)).actor(session.actor()?);
    // What is read of stdout by a program is one address.
    let options = options.announce(|url| {
        let _nobody_may_read_it = writeln!(io::stderr(), "open {url} (it works once)");
    });
    bind(engine, options).await.map_err(failed)
}

pub(crate) fn failed(error: ServeError) -> CliError {
    CliError::new(Exit::Failed, error.to_string())
}

fn actions(allowed: Allowed) -> Actions {
    match allowed {
        Allowed::Decide => Actions::DECIDE,
        Allowed::Signal => Actions::SIGNAL,
        Allowed::End => Actions::END,
        Allowed::Fork => Actions::FORK,
        Allowed::All => Actions::ALL,
    }
}
