//! `dev`: a program that is started again on changes, and a program that is its own engine, both with a console.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::desk::{ARGS, STORE, builder, count, this_test};
use crate::kit::{Desk, bare, until, valid};

/// Starts a command, and reads the address of its console.
fn opened(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with('{')).expect("it says where the console is");
    // What the program prints is read, so that it can go on.
    std::thread::spawn(move || lines.count());
    let url = valid("dev", &line)["url"].as_str().unwrap().to_owned();
    (child, url)
}

fn page(url: &str) -> String {
    let (host, path) = url.trim_start_matches("http://").split_once('/').unwrap();
    let (mut page, mut stream) = (String::new(), TcpStream::connect(host).unwrap());
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    stream.read_to_string(&mut page).unwrap();
    page
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    list.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

fn terminate(child: &mut Child) -> ExitStatus {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap()
}

fn is_gone(process: u32) -> bool {
    !Path::new(&format!("/proc/{process}")).exists()
}

async fn count_to_three(desk: &Desk, run: &str) {
    let client = builder(&desk.db).client().start().await.unwrap();
    let run = client.start::<count>(3).id(run).await.unwrap();
    let result = tokio::time::timeout(Duration::from_secs(60), run.result()).await;
    assert_eq!(result.expect("the program advances runs").unwrap(), 3);
    client.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_started_again_when_its_sources_change_and_the_console_stays() {
    let desk = Desk::new();
    let source = desk.folder.path().join("src/main.rs");
    std::fs::create_dir(source.parent().unwrap()).unwrap();
    std::fs::write(&source, "fn main() {}").unwrap();
    let service = this_test("desk::serves");
    let mut command = desk.command(&["dev", "--json"]);
    command.arg(desk.folder.path()).arg("--").arg(service.get_program()).args(service.get_args());
    command.env(STORE, &desk.db);
    let (mut dev, url) = opened(command);
    assert!(page(&url).starts_with("HTTP/1.1 200"));
    count_to_three(&desk, "first").await;

    let [first] = children(dev.id())[..] else { panic!("one program runs") };
    std::fs::write(&source, "fn main() { /* better */ }").unwrap();
    until(|| is_gone(first) && children(dev.id()).len() == 1).await;
    count_to_three(&desk, "second").await;
    assert!(page(&url).starts_with("HTTP/1.1 "), "the console outlives the build");

    // One that ends by itself is not started again until a source changes.
    let [second] = children(dev.id())[..] else { panic!("one program runs") };
    let id = rustix::process::Pid::from_raw(second.cast_signed()).unwrap();
    rustix::process::kill_process(id, rustix::process::Signal::KILL).unwrap();
    until(|| children(dev.id()).is_empty()).await;
    std::fs::write(&source, "fn main() { /* better again */ }").unwrap();
    until(|| children(dev.id()).len() == 1).await;

    let third = children(dev.id())[0];
    assert_eq!(terminate(&mut dev).code(), Some(0));
    assert!(is_gone(third), "it does not outlive its supervisor");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_links_its_workflows_is_engine_and_console_in_one() {
    let desk = Desk::new();
    let mut command = this_test("desk::is_a_command_line");
    let args = serde_json::to_string(&["desk", "dev", "--json"]).unwrap();
    command.env(STORE, &desk.db).env(ARGS, args).env("AETHER_ACTOR", "ada").stdin(Stdio::null());
    let (mut dev, url) = opened(command);
    assert!(page(&url).starts_with("HTTP/1.1 200"));
    count_to_three(&desk, "own").await;
    assert_eq!(terminate(&mut dev).code(), Some(0));

    let said = desk.own(&["dev", "some/folder"]).exits(2);
    assert!(said.err.contains("it starts no other one"), "{}", said.err);
}

#[test]
fn without_a_program_or_a_file_it_says_what_is_missing() {
    let desk = Desk::new();
    let folder = desk.folder.path().to_str().unwrap();
    assert!(desk.cli(&["dev", folder]).exits(2).err.contains("there is no Cargo.toml in"));
    let said = desk.cli(&["dev", folder, "--", "/nowhere/program"]).exits(1);
    assert!(said.err.contains("the program cannot be started"), "{}", said.err);
    let none = crate::kit::Said::of(bare().args(["dev", folder]).output().unwrap()).exits(2);
    assert!(none.err.contains("--db"), "{}", none.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_with_a_manifest_is_built_and_run_by_cargo() {
    let desk = Desk::new();
    let folder = desk.folder.path().join("crate");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = "[package]\nname = \"under_development\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    let source = |says: &str| {
        format!(
            "fn main() {{ let db = std::env::var(\"AETHER_DB\").unwrap(); std::fs::write(\"said\", \"{says} \".to_owned() + &db).unwrap(); }}"
        )
    };
    let (main, said) = (folder.join("src/main.rs"), folder.join("said"));
    std::fs::write(&main, source("one")).unwrap();
    let mut command = desk.command(&["dev"]);
    command.arg(&folder).env("CARGO_NET_OFFLINE", "true").env_remove("CARGO_TARGET_DIR");
    let mut dev = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let says = |word: &str| std::fs::read_to_string(&said).is_ok_and(|text| text.starts_with(word));
    until(|| says("one")).await;
    assert!(std::fs::read_to_string(&said).unwrap().ends_with("agent.db"));

    std::fs::write(&main, "fn main() { no rust }").unwrap();
    std::fs::write(&main, source("two")).unwrap();
    until(|| says("two")).await;
    assert_eq!(terminate(&mut dev).code(), Some(0));
}
