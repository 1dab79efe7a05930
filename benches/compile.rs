//! What the attributes cost: `cargo check` of a crate of workflows, and of the same functions without attributes.
//!
//! `cargo bench --bench compile -- [--workflows W] [--rounds R] [--json]`
//!
//! W workflows (default 200) with three steps each, ten workflows to a file, are written into the target directory twice,
//! with `#[workflow]` and `#[step]` and without. Dependencies are built before. Measured are, in turns, `cargo check` of
//! each crate after `cargo clean` of it alone, and again with incremental compilation after a line was added to one
//! workflow. The figures are medians of the rounds (default 5), and the ratio is the median of the rounds' ratios. The time
//! of a `cargo check` that finds nothing to do is part of all of them; it is told as well.

#[path = "kit/mod.rs"]
mod kit;
#[path = "compile/project.rs"]
mod project;
#[path = "compile/sources.rs"]
mod sources;

use std::path::Path;

use kit::Result;
use kit::figures::{median, tell};
use project::{Project, ROOT};
use serde_json::json;
use sources::Kind;

struct Options {
    workflows: u32,
    rounds: u32,
    json: bool,
}

impl Options {
    fn parse() -> Result<Self> {
        let mut given = kit::options::Options::read();
        let options = Self {
            workflows: given.value("--workflows", 200)?,
            rounds: given.value("--rounds", 5)?,
            json: given.flag("--json"),
        };
        given.end()?;
        Ok(Self { workflows: options.workflows.max(1), rounds: options.rounds.max(1), ..options })
    }
}

/// The two crates.
struct Pair {
    macros: Project,
    plain: Project,
    workflows: u32,
    /// The file whose first workflow is edited.
    edited: u32,
}

impl Pair {
    /// Writes both, and builds their dependencies.
    fn new(workflows: u32) -> Result<Self> {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile");
        let (root, files) = sources::root(workflows);
        let of = |kind: Kind| -> Result<Project> {
            let needs = format!(
                "aether = {{ path = \"{ROOT}\", default-features = false }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n"
            );
            let project = Project::new(&place, &package(kind), &needs, place.join("target"))?;
            project.write("lib.rs", &root)?;
            project.write("order.rs", sources::ORDER)?;
            for file in 0..files {
                project.write(&format!("flows_{file}.rs"), &sources::file(kind, workflows, file, 0))?;
            }
            check(&project, false)?;
            Ok(project)
        };
        Ok(Self { macros: of(Kind::Macros)?, plain: of(Kind::Plain)?, workflows, edited: files / 2 })
    }

    fn of(&self, kind: Kind) -> &Project {
        match kind {
            Kind::Macros => &self.macros,
            Kind::Plain => &self.plain,
        }
    }

    fn clean_check(&self, kind: Kind) -> Result<f64> {
        self.of(kind).cargo(&["clean", "--quiet", "--package", &package(kind)], false)?;
        check(self.of(kind), false)
    }

    /// Checks with incremental compilation after the edit of this number.
    fn edited_check(&self, kind: Kind, edits: u32) -> Result<f64> {
        let text = sources::file(kind, self.workflows, self.edited, edits);
        self.of(kind).write(&format!("flows_{}.rs", self.edited), &text)?;
        check(self.of(kind), true)
    }
}

fn package(kind: Kind) -> String {
    format!("cost-{}", kind.name())
}

/// Seconds of `cargo check`.
fn check(project: &Project, incremental: bool) -> Result<f64> {
    Ok(project.cargo(&["check", "--quiet"], incremental)?.0.as_secs_f64())
}

/// Seconds of each round.
#[derive(Default)]
struct Rounds {
    macros: Vec<f64>,
    plain: Vec<f64>,
}

impl Rounds {
    fn measure(rounds: u32, mut check: impl FnMut(Kind, u32) -> Result<f64>) -> Result<Self> {
        let mut all = Self::default();
        for round in 1..=rounds {
            all.macros.push(check(Kind::Macros, round)?);
            all.plain.push(check(Kind::Plain, round)?);
        }
        Ok(all)
    }

    fn tell(&self, what: &str, options: &Options, nothing: f64) {
        let ratios: Vec<f64> =
            self.macros.iter().zip(&self.plain).map(|(macros, plain)| macros / plain).collect();
        let ([low, middle, high], floor, ratio) =
            (spread(&self.macros), spread(&self.plain), spread(&ratios));
        let figures = json!({
            "after": what, "workflows": options.workflows, "steps": options.workflows * sources::STEPS,
            "rounds": options.rounds, "check_s": middle, "check_s_min": low, "check_s_max": high,
            "floor_check_s": floor[1], "floor_check_s_min": floor[0], "floor_check_s_max": floor[2],
            "ratio": ratio[1], "ratio_min": ratio[0], "ratio_max": ratio[2], "nothing_to_do_s": nothing,
        });
        let text = format!(
            "{} workflows, after {what}: {middle:.2} s ({low:.2} to {high:.2}), without attributes {:.2} s, ratio {:.2}; {nothing:.2} s with nothing to do",
            options.workflows, floor[1], ratio[1]
        );
        tell(options.json, "compile", figures, &text);
    }
}

/// Least, median and greatest.
fn spread(values: &[f64]) -> [f64; 3] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [least, median(values.to_vec()), greatest]
}

fn main() -> Result<()> {
    let options = Options::parse()?;
    let pair = Pair::new(options.workflows)?;
    let nothing = Rounds::measure(options.rounds, |kind, _| check(pair.of(kind), false))?;
    let nothing = median(nothing.plain);
    let clean = Rounds::measure(options.rounds, |kind, _| pair.clean_check(kind))?;
    clean.tell("a clean", &options, nothing);
    for kind in [Kind::Macros, Kind::Plain] {
        pair.edited_check(kind, 0)?;
    }
    let edited = Rounds::measure(options.rounds, |kind, round| pair.edited_check(kind, round))?;
    edited.tell("an edit", &options, nothing);
    Ok(())
}
