//! `check`: builds, reads, walks, tells.
//!
//! Promise: exit code 0 means that everything that was built was looked at, and nothing found.

use std::mem::ManuallyDrop;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::allow::{AllowError, Allows};
use crate::args::Check;
use crate::baseline::{Baseline, BaselineError};
use crate::build::{BuildError, Project};
use crate::graph::nodes::Graph;
use crate::graph::parts::ReadError;
use crate::mir::read;
use crate::parallel;
use crate::program::Program;
use crate::report;
use crate::rules::{Level, Rules};
use crate::toolchain::{self, ToolchainError};
use crate::walk::{Finding, Walk};

/// Why a project could not be checked.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the reader of MIR has failed: this is a bug of cargo-aether")]
    Mir,
    #[error(transparent)]
    Allow(#[from] AllowError),
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    #[error("what is found cannot be printed: {0}")]
    Print(String),
    #[error(
        "nothing that was built has a workflow: name what has with `-- --package NAME` or `-- --all-targets`"
    )]
    NoWorkflow,
}

/// Checks, and says whether something was found.
pub(crate) fn run(args: &Check) -> ExitCode {
    match check(args) {
        Ok(is_clean) => ExitCode::from(u8::from(!is_clean)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn check(args: &Check) -> Result<bool, CheckError> {
    let began = Instant::now();
    let project = Project::find(args)?;
    let rules = Rules::new();
    // What is wrong with it is said before the build, which takes long.
    let allows = Allows::read(&project.root, &rules.kinds())?;
    let baseline =
        args.baseline.as_deref().filter(|_| !args.write_baseline).map(Baseline::read).transpose()?;
    toolchain::try_once(&project.root, &project.folder(args), &rules)?;
    let built = project.build(args)?;
    let compiled = began.elapsed();
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    // The program ends soon after it, and a million small pieces take long to free.
    let graph = ManuallyDrop::new(Graph::read(&built.files, jobs)?);
    let told = parallel::try_map(&built.mir, jobs, |(file, krate)| read::read(file, krate));
    let told = told.map_err(|_| CheckError::Mir)?.concat();
    let read = began.elapsed();
    let program = Program::new(&graph, &rules, &built.local, &told);
    let roots = program.roots();
    if roots.is_empty() {
        return Err(CheckError::NoWorkflow);
    }
    let walk = Walk::new(&program, &allows, &roots, jobs);
    let mut looked = walk.all(&roots, jobs);
    let mut findings: Vec<Finding> =
        looked.iter_mut().flat_map(|looked| std::mem::take(&mut looked.findings)).collect();
    let all = findings.len();
    findings.retain(|found| args.notes || found.level == Level::Error);
    let unshown = all - findings.len();
    if let Some(file) = args.baseline.as_deref().filter(|_| args.write_baseline) {
        Baseline::write(file, &findings)?;
        eprintln!("{} findings are written to {}", findings.len(), file.display());
        return Ok(true);
    }
    let gone = baseline.map(|known| known.take_known(&mut findings)).unwrap_or_default();
    let stale = walk.stale(&roots, &looked).into_iter().chain(gone);
    stale.for_each(|stale| eprintln!("warning: {stale}"));
    print(args, &findings, &rules, &project)?;
    let times = [compiled, read - compiled, began.elapsed() - read].map(|time: Duration| time.as_secs_f64());
    eprintln!(
        "{} workflows and pure steps, {} findings{}; build {:.1} s, read {} files in {:.2} s ({} names, {} references), walked in {:.2} s",
        roots.len(),
        findings.len(),
        if unshown == 0 { String::new() } else { format!(", {unshown} notes not shown (`--notes`)") },
        times[0],
        built.files.len(),
        times[1],
        graph.nodes.len(),
        graph.references(),
        times[2],
    );
    Ok(findings.iter().all(|found| found.level == Level::Note))
}

fn print(args: &Check, findings: &[Finding], rules: &Rules, project: &Project) -> Result<(), CheckError> {
    let text = match args.json {
        true => report::json(findings, rules).map_err(|error| CheckError::Print(error.to_string()))?,
        false => report::text(findings, rules, &project.root),
    };
    report::print(&text).map_err(|error| CheckError::Print(error.to_string()))
}
