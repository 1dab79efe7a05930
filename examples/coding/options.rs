//! What can be said on the command line.

use std::path::PathBuf;

use aether_testing::crash::CrashPoint;

/// The options, with their defaults.
pub(crate) struct Options {
    pub(crate) repo: Option<PathBuf>,
    pub(crate) db: PathBuf,
    pub(crate) id: String,
    pub(crate) yes: bool,
    pub(crate) crash: Option<CrashPoint>,
    /// The command of the server for files, which gets the repository as its last argument.
    pub(crate) files: Vec<String>,
    /// The command of the server for git, likewise.
    pub(crate) git: Vec<String>,
}

impl Options {
    pub(crate) fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            repo: None,
            db: "coding.db".into(),
            id: "coding".into(),
            yes: false,
            crash: None,
            files: command("AETHER_MCP_FILESYSTEM", files_server),
            git: command("AETHER_MCP_GIT", git_server),
        };
        while let Some(name) = args.next() {
            if name == "--yes" {
                options.yes = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("`{name}` needs a value, or is no option"))?;
            let number = || value.parse().map_err(|_| format!("`{name} {value}`: this is no number"));
            match name.as_str() {
                "--repo" => options.repo = Some(value.into()),
                "--db" => options.db = value.into(),
                "--id" => options.id = value,
                "--crash-at" => options.crash = Some(CrashPoint::Before(number()?)),
                "--crash-after" => options.crash = Some(CrashPoint::After(number()?)),
                _ => {
                    let known = "--repo, --db, --id, --yes, --crash-at and --crash-after";
                    return Err(format!("unknown option `{name}`: there are {known}"));
                }
            }
        }
        Ok(options)
    }
}

/// The command that a variable names; else the default.
fn command(variable: &str, default: fn() -> Vec<String>) -> Vec<String> {
    std::env::var(variable).map_or_else(|_| default(), |text| words(&text))
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn files_server() -> Vec<String> {
    match installed("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js") {
        Some(script) => vec!["node".into(), script],
        None => words("npx -y @modelcontextprotocol/server-filesystem"),
    }
}

fn git_server() -> Vec<String> {
    match installed("venv/bin/mcp-server-git") {
        Some(program) => vec![program, "--repository".into()],
        None => words("uvx mcp-server-git --repository"),
    }
}

/// What `scripts/mcp-servers` has installed beside this program, if it has.
fn installed(file: &str) -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let file = program.ancestors().nth(3)?.join("mcp-servers").join(file);
    file.exists().then(|| file.display().to_string())
}
