//! Editing JSON in the editor of whoever sits there.

use std::io::Write as _;
use std::process::Command;

use aether_core::payload::Payload;
use serde_json::Value;

use crate::error::CliError;
use crate::exit::Exit;
use crate::text;
use crate::value;

/// Lets somebody edit `args`. An error where nothing was changed, or what was written is no JSON.
pub(crate) fn edit(args: &Payload) -> Result<Payload, CliError> {
    let failed = |what: String| CliError::new(Exit::Failed, what);
    let set = |name| std::env::var(name).ok().filter(|editor: &String| !editor.trim().is_empty());
    let editor = set("VISUAL").or_else(|| set("EDITOR")).ok_or_else(|| {
        CliError::usage("it is not said which editor to use")
            .with_help("set EDITOR, or pass the arguments with `--args`")
    })?;
    let mut file = tempfile::Builder::new()
        .prefix("aether-")
        .suffix(".json")
        .tempfile()
        .map_err(|error| failed(format!("no file can be made to edit: {error}")))?;
    // An editor may run on a terminal too.
    let before = text::json(&pretty(args));
    file.write_all(before.as_bytes())
        .map_err(|error| failed(format!("the file to edit cannot be written: {error}")))?;
    // As git does it: the editor may come with arguments.
    let status = Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(file.path())
        .status()
        .map_err(|error| failed(format!("the editor cannot be started: {error}")))?;
    if !status.success() {
        return Err(failed(format!("the editor ended with {status}, so nothing was approved")));
    }
    let after = std::fs::read_to_string(file.path())
        .map_err(|error| failed(format!("what was edited cannot be read: {error}")))?;
    if after.trim() == before.trim() {
        return Err(failed("nothing was edited, so nothing was approved".into())
            .with_help("approve the arguments as they are without `--edit`"));
    }
    value::parse(after.trim())
}

/// The JSON text laid out, where that loses nothing.
fn pretty(args: &Payload) -> String {
    let laid_out = args.decode::<Value>().ok().and_then(|value| {
        let same = Payload::encode(&value).ok()? == *args;
        same.then(|| serde_json::to_string_pretty(&value).ok()).flatten()
    });
    laid_out.unwrap_or_else(|| args.as_str().to_owned()) + "\n"
}
