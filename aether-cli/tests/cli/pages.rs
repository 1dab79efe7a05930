//! `docs/cli.md` says what the program does.

use std::collections::BTreeSet;
use std::path::Path;

use aether::cli::Exit;

use crate::kit::{Said, bare, schemas};

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md")).unwrap()
}

#[test]
fn the_table_of_exit_codes_is_complete() {
    let page = page();
    for exit in [
        Exit::Done,
        Exit::Failed,
        Exit::Usage,
        Exit::NotFound,
        Exit::Store,
        Exit::Conflict,
        Exit::Problems,
        Exit::TimedOut,
        Exit::NotCompleted,
    ] {
        let row = format!("| {} | `{}` |", exit.number(), exit.as_str());
        assert!(page.contains(&row), "docs/cli.md has no row {row}");
    }
}

/// With `AETHER_BLESS=1` it writes the list of what `--json` prints.
#[test]
fn the_page_lists_what_each_command_prints() {
    let (begin, end) = ("<!-- json -->\n", "<!-- end -->");
    let page = page();
    let before = page.split_once(begin).unwrap().0;
    let after = page.split_once(end).unwrap().1;
    let mut list = String::from("| command | fields |\n|---|---|\n");
    for (name, schema) in schemas() {
        let fields = |schema: &serde_json::Value| {
            // Sorted: their order depends on a feature of another crate.
            let fields =
                schema["properties"].as_object().map(|fields| fields.keys().collect::<BTreeSet<_>>());
            fields.map(|fields| fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" "))
        };
        let variants = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_lines: Vec<_> = variants.iter().filter_map(fields).collect();
        let fields = fields(schema).unwrap_or_else(|| of_lines.join("; "));
        list += &format!("| `{name}` | {fields} |\n");
    }
    let wanted = format!("{before}{begin}{list}{end}{after}");
    if std::env::var_os("AETHER_BLESS").is_some() {
        std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md"), wanted).unwrap();
        return;
    }
    assert_eq!(page, wanted, "write it with AETHER_BLESS=1");
}

#[test]
fn the_page_names_every_command() {
    let (page, help) = (page(), Said::of(bare().arg("--help").output().unwrap()).out);
    let commands = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    for command in
        commands.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
    {
        assert!(page.contains(&format!("`{command}")), "docs/cli.md does not name `{command}`");
    }
}
