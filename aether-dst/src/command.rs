//! The command line of the exploration.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use aether_dst::case::{Case, Mode, Plan};
use aether_dst::explore::{Budget, Failed, Report, explore, replay};
use aether_dst::mutants;
use aether_dst::sim::Coroutines;

const USAGE: &str = "\
usage: scripts/schedules [<schedules> | <seconds>s] [--seed <first>] [--mode swarm|awaits|walk|pct] [--sqlite]
       scripts/schedules --mutants
       AETHER_SCHEDULE=<seed or case> scripts/schedules     plays one schedule again, with a log";

/// Cases that failed once.
const FOLDER: &str = "tests/schedules";

/// Runs the command.
pub(crate) fn run(args: Vec<String>) -> ExitCode {
    aether_core::sched::install(&Coroutines);
    // Panics of stories are a part of them.
    if std::env::var_os("LOUD").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let Some(options) = Options::read(args) else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    if let Some(fault) = &options.mutant {
        mutants::put_back(fault);
    }
    match (std::env::var("AETHER_SCHEDULE"), &options.mutant) {
        (Ok(schedule), _) => again(&schedule, options.plan),
        (Err(_), Some(fault)) => hunted(fault, &options),
        (Err(_), None) if options.mutants => hunt(&options),
        (Err(_), None) => explored(&options),
    }
}

struct Options {
    budget: Budget,
    seed: u64,
    plan: Plan,
    mutants: bool,
    /// Writes the shortest story that finds the fault.
    keep: bool,
    /// Explores with this fault put back.
    mutant: Option<String>,
}

impl Options {
    fn read(args: Vec<String>) -> Option<Self> {
        let budget = Budget::Time(Duration::from_secs(60));
        let plan = Plan { mode: Mode::Swarm, file: false };
        let mut options = Self { budget, seed: 1, plan, mutants: false, keep: false, mutant: None };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            match &*arg {
                "--seed" => options.seed = args.next()?.parse().ok()?,
                "--mode" => options.plan.mode = Mode::named(&args.next()?)?,
                "--sqlite" => options.plan.file = true,
                "--mutants" => options.mutants = true,
                "--keep" => options.keep = true,
                "--mutant" => options.mutant = args.next(),
                number => {
                    options.budget = match number.strip_suffix('s') {
                        Some(seconds) => Budget::Time(Duration::from_secs(seconds.parse().ok()?)),
                        None => Budget::Schedules(number.parse().ok()?),
                    }
                }
            }
        }
        Some(options)
    }
}

/// Plays one schedule again, twice, and prints its log.
fn again(schedule: &str, plan: Plan) -> ExitCode {
    let case = match schedule.parse() {
        Ok(seed) => Case::of(seed, plan),
        Err(_) => match serde_json::from_str(schedule) {
            Ok(case) => case,
            Err(error) => {
                eprintln!("AETHER_SCHEDULE is neither a seed nor a case: {error}");
                return ExitCode::FAILURE;
            }
        },
    };
    println!("{:#?}", case);
    let (found, second) = (case.run(true), case.run(true));
    found.ended.log.iter().for_each(|line| println!("{line}"));
    println!("trace {:016x}, {} points", found.ended.trace, found.ended.points);
    if found.ended.trace != second.ended.trace {
        println!("NOT DETERMINISTIC: the second time the trace was {:016x}", second.ended.trace);
        let differs =
            found.ended.log.iter().zip(&second.ended.log).position(|(first, second)| first != second);
        for line in second.ended.log.iter().skip(differs.unwrap_or_default()).take(20) {
            println!("the second time {line}");
        }
        return ExitCode::FAILURE;
    }
    for violation in &found.violations {
        println!("{}: {}", violation.rule, violation.what);
    }
    if found.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn explored(options: &Options) -> ExitCode {
    let failing = match replay(Path::new(FOLDER)) {
        Ok((schedules, failing)) => {
            println!("{schedules} schedules of stories that failed before: {} fail", failing.len());
            failing
        }
        Err(error) => {
            eprintln!("{FOLDER}: {error}");
            return ExitCode::FAILURE;
        }
    };
    for (file, what) in &failing {
        println!("  {}: {what}", file.display());
    }
    let report = explore(options.seed, options.budget, options.plan, |_| false);
    print(&report);
    for (rule, failures) in &report.failures {
        shrink(rule, failures.seed, options.plan);
    }
    if failing.is_empty() && report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Puts each known fault back, each in a process of its own, and says after how many schedules it is found.
fn hunt(options: &Options) -> ExitCode {
    let mut missed = 0;
    for fault in mutants::ALL {
        println!("{}: {}", fault.name, fault.what);
        let Ok(program) = std::env::current_exe() else { return ExitCode::FAILURE };
        let mut command = std::process::Command::new(program);
        command.args(["--mutant", fault.name, "--seed", &options.seed.to_string()]);
        if let Budget::Schedules(count) = options.budget {
            command.arg(count.to_string());
        }
        missed += u32::from(!command.status().is_ok_and(|status| status.success()));
    }
    println!("{} of {} known faults are found", mutants::ALL.len() as u32 - missed, mutants::ALL.len());
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores until the fault is found.
fn hunted(fault: &str, options: &Options) -> ExitCode {
    let Some(known) = mutants::ALL.iter().find(|known| known.name == fault) else {
        eprintln!("no fault `{fault}`");
        return ExitCode::FAILURE;
    };
    let (rules, plan) = (known.rules, Plan { file: known.file, ..options.plan });
    let report = explore(options.seed, options.budget, plan, |rule| rules.contains(&rule));
    let found = rules.iter().find_map(|rule| Some((rule, report.failures.get(*rule)?)));
    match found {
        Some((rule, failures)) => {
            let (after, seconds) = (report.schedules, report.took.as_secs_f64());
            println!("  found after {after} schedules, {seconds:.1} s: {rule}, seed {}", failures.seed);
            if options.keep {
                keep(rule, fault, Some(known.what), Case::of(failures.seed, plan).shrunk(rule));
            }
            ExitCode::SUCCESS
        }
        None => {
            println!("  NOT FOUND in {} schedules", report.schedules);
            ExitCode::FAILURE
        }
    }
}

fn print(report: &Report) {
    let (count, seconds) = (report.schedules.max(1), report.took.as_secs_f64());
    println!(
        "{count} schedules in {seconds:.1} s: {:.0}/s; each {} steps, {} points; {} rules broken",
        report.schedules as f64 / seconds,
        report.steps / count,
        report.points / count,
        report.failures.len()
    );
    for (rule, failures) in &report.failures {
        println!("  {rule}: {} times, first with seed {}: {}", failures.count, failures.seed, failures.what);
    }
}

/// Prints the shortest case that breaks the rule, as a line that plays it again and as a file.
fn shrink(rule: &str, seed: u64, plan: Plan) {
    let case = Case::of(seed, plan).shrunk(rule);
    let Ok(line) = serde_json::to_string(&case) else { return };
    println!("\n{rule}, cut down from seed {seed}:\nAETHER_SCHEDULE='{line}' scripts/schedules");
    keep(rule, &format!("{rule}-{seed}"), None, case);
}

/// Writes a case to a file that can be kept.
fn keep(rule: &str, name: &str, cause: Option<&str>, case: Case) {
    let trace = format!("{:016x}", case.run(false).ended.trace);
    let file = format!("target/schedules/{name}.json");
    let failed = Failed { rule: rule.into(), cause: cause.map(Into::into), case, trace };
    let written = serde_json::to_string_pretty(&failed).map(|text| std::fs::write(&file, text + "\n"));
    if let Ok(Ok(())) = written {
        println!("{file}: to keep it, fix its cause and move it to {FOLDER}");
    }
}
