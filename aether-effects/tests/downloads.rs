//! Downloads and uploads through a real engine and real sockets, on a real file of SQLite: in pieces, read back by digest,
//! gone with their run, and never half.

#![allow(clippy::unwrap_used)] // In functions that tests share.

mod kit;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aether_core::codec::CodedStore;
use aether_core::definition::def::{Retry, StepOptions};
use aether_core::engine::{EngineBuilder, RunError};
use aether_core::failure::Failure;
use aether_core::id::RunId;
use aether_core::journal::event::{Event, HttpRecorded};
use aether_core::journal::read_verified;
use aether_core::outcome::{EffectClass, FailureClass};
use aether_core::recording::Masking;
use aether_core::step::Step;
use aether_core::store::memory::MemoryStore;
use aether_core::store::{Purged, Store};
use aether_core::workflow::call_step;
use aether_effects::cassette::{Cassette, Mode};
use aether_effects::environment::SystemEnvironment;
use aether_effects::http::{Body, CxHttp, Download, HttpClient, HttpResponse, StepHttp, Upload};
use aether_encryption::{Encryption, Keys, SecretKey};
use aether_sqlite::SqliteStore;
use kit::files::{FileServer, Serving, content, header, sha256};
use kit::verify;
use sha2::{Digest as _, Sha256};

/// Size of a piece.
const PIECE: usize = 1 << 20;

/// How long a peer that hangs is waited for: much longer than a slow machine takes to be answered by one that does not.
const IDLE: Duration = Duration::from_secs(3);

fn builder_on(store: &Arc<dyn Store>) -> EngineBuilder {
    EngineBuilder::new(Arc::new(SystemEnvironment)).store(Arc::clone(store))
}

fn sqlite(folder: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(folder.path().join("agent.db")).unwrap())
}

async fn exchanges(store: &Arc<dyn Store>, run: &RunId) -> Vec<HttpRecorded> {
    let events = read_verified(&store.load(run, 0).await.unwrap()).unwrap();
    events.into_iter().filter_map(|e| if let Event::HttpRecorded(e) = e { Some(e) } else { None }).collect()
}

workflow!(Fetch(cx, url: String) -> Download {
    Ok(cx.http().get(url).timeout(IDLE).download().await?.error_for_status()?)
});

step!(digest_of(cx, download: Download) -> (u64, String), StepOptions::of(EffectClass::Read), {
    let (mut reader, mut hash, mut bytes) = (download.read(&cx), Sha256::new(), 0);
    while let Some(piece) = reader.next().await? {
        assert!(piece.len() <= PIECE);
        bytes += piece.len() as u64;
        hash.update(&piece);
    }
    Ok((bytes, aether_core::payload::hex(&hash.finalize())))
});

workflow!(FetchAndRead(cx, url: String) -> (u64, String) {
    let download = cx.http().get(url).timeout(IDLE).download().await?;
    Ok(call_step::<digest_of>(cx, digest_of::encode(&download)).await?)
});

workflow!(Read(cx, download: Download) -> (u64, String) {
    Ok(call_step::<digest_of>(cx, digest_of::encode(&download)).await?)
});

#[tokio::test]
async fn a_download_is_kept_in_pieces_and_read_back_also_by_other_runs_and_after_a_restart() {
    for length in [0, 1, PIECE, 3 * PIECE + 17] {
        let (folder, whole) = (tempfile::tempdir().unwrap(), content(length));
        let server = FileServer::start(whole.clone(), &[]).await;
        let store = sqlite(&folder);
        let engine = builder_on(&store).start().await.unwrap();
        let run = engine.start::<Fetch>(server.url.clone()).id("fetch").await.unwrap();
        let download = run.result().await.unwrap();
        assert_eq!((download.bytes, &download.sha256), (length as u64, &sha256(&whole)));
        assert_eq!((download.status, download.header("ETag")), (200, Some("\"1\"")));
        verify(&engine, run.id()).await;
        let journal: usize =
            store.load(run.id(), 0).await.unwrap().iter().map(|frame| frame.text.len()).sum();
        assert!(journal < 10_000, "the journal has {journal} bytes");
        for piece in whole.chunks(PIECE) {
            let kept = store.blob(run.id(), &sha256(piece)).await.unwrap();
            assert_eq!(kept.as_deref(), Some(piece));
        }
        engine.shutdown().await.unwrap();

        let store = sqlite(&folder);
        let engine = builder_on(&store).start().await.unwrap();
        let read = engine.start::<Read>(download).await.unwrap().result().await.unwrap();
        assert_eq!(read, (length as u64, sha256(&whole)));
        assert_eq!(server.asked().len(), 1);
        engine.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_download_that_is_cut_off_anywhere_leaves_none_and_is_fetched_again() {
    let whole = content(2 * PIECE + 10);
    for end in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, whole.len() - 1] {
        let server = FileServer::start(whole.clone(), &[Serving::CutAt(end)]).await;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = builder_on(&store).read_retry(Retry::times(1)).start().await.unwrap();
        let run = engine.start::<FetchAndRead>(server.url.clone()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), (whole.len() as u64, sha256(&whole)), "cut at {end}");
        assert_eq!(server.asked().len(), 2);
        let recorded = exchanges(&store, run.id()).await;
        let named: Vec<_> = recorded.iter().map(|e| e.response.as_str().contains("contents")).collect();
        assert_eq!(named, [false, true], "what was cut off is an error and no download");
        assert!(recorded[0].response.as_str().contains("the connection broke"), "{:?}", recorded[0]);
        verify(&engine, run.id()).await;
    }
    // Where it is not to be fetched again, that is what the run gets to know.
    let server = FileServer::start(whole, &[Serving::CutAt(PIECE)]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).read_retry(Retry::times(0)).start().await.unwrap();
    let error = engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await.unwrap_err();
    assert!(error.to_string().contains("the connection broke"), "{error}");
}

#[tokio::test]
async fn a_process_that_dies_in_a_download_leaves_none_and_the_next_one_fetches_it_again() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), content(2 * PIECE + 10));
    let server = FileServer::start(whole.clone(), &[Serving::StallAt(PIECE + 5)]).await;
    let store = sqlite(&folder);
    let engine = builder_on(&store).start().await.unwrap();
    engine.start::<FetchAndRead>(server.url.clone()).id("run").await.unwrap();
    let run = RunId::new("run").unwrap();
    // The first piece is in the store, and nothing says that it belongs to anything.
    while store.blob(&run, &sha256(&whole[..PIECE])).await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    engine.shutdown_within(Duration::ZERO).await.unwrap();
    assert!(exchanges(&sqlite(&folder), &run).await.is_empty());

    let store = sqlite(&folder);
    let poll = Duration::from_millis(5);
    let engine = builder_on(&store).register::<FetchAndRead>().poll_interval(poll).start().await.unwrap();
    let result = engine.handle::<FetchAndRead>("run").await.unwrap().result().await;
    assert_eq!(result.unwrap(), (whole.len() as u64, sha256(&whole)));
    assert_eq!((server.asked().len(), exchanges(&store, &run).await.len()), (2, 1));
    engine.shutdown().await.unwrap();
}

workflow!(PostAndFetch(cx, url: String) -> Download {
    Ok(cx.http().post(url).json(&1).timeout(IDLE).download().await?)
});

#[tokio::test]
async fn the_answer_to_a_post_that_is_cut_off_leaves_the_outcome_unknown() {
    let whole = content(PIECE + 10);
    let server = FileServer::start(whole.clone(), &[Serving::CutAt(PIECE + 1)]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).start().await.unwrap();
    let run = engine.start::<PostAndFetch>(server.url.clone()).await.unwrap();
    let Err(RunError::Failed(failure)) = run.result().await else { panic!("the run must fail") };
    assert_eq!((failure.class(), server.asked().len()), (FailureClass::Unknown, 1));
    let run = engine.start::<PostAndFetch>(server.url.clone()).await.unwrap();
    assert_eq!(run.result().await.unwrap().sha256, sha256(&whole));
}

#[tokio::test]
async fn a_download_over_the_limit_is_refused_whether_its_length_is_told_or_not() {
    let client = || HttpClient::builder().max_body(10).max_download(PIECE as u64 + 5).build().unwrap();
    for (length, serving, fits) in [
        (PIECE + 5, Serving::Whole, true),
        (PIECE + 5, Serving::Chunked, true),
        (PIECE + 6, Serving::Whole, false),
        (PIECE + 6, Serving::Chunked, false),
    ] {
        let server = FileServer::start(content(length), &[serving]).await;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = builder_on(&store).provide(client()).start().await.unwrap();
        match engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await {
            Ok(download) => assert!(fits && download.bytes == length as u64, "{serving:?}"),
            Err(error) => {
                assert!(!fits && error.to_string().contains("over the limit of 1048581 bytes"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn what_dawdles_is_waited_for_and_what_stalls_is_not() {
    let whole = content(PIECE);
    // Longer than the timeout as a whole.
    let slowly = Serving::Slowly(6, IDLE / 4);
    let server = FileServer::start(whole.clone(), &[slowly, Serving::StallAt(PIECE / 2)]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).read_retry(Retry::times(0)).start().await.unwrap();
    let fetched = engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await.unwrap();
    assert_eq!(fetched.sha256, sha256(&whole));
    let error = engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await.unwrap_err();
    assert!(error.to_string().contains("no piece of it came for 3s"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_server_is_told_with_how_it_begins() {
    let server = FileServer::start(b"no such file here".to_vec(), &[Serving::Status(404)]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).start().await.unwrap();
    let Err(RunError::Failed(failure)) =
        engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await
    else {
        panic!("the run must fail");
    };
    assert!(failure.to_string().contains("status 404; the body starts \"no such file here\""), "{failure}");
    assert_eq!(failure.class(), FailureClass::Permanent);
}

#[tokio::test]
async fn pieces_go_with_their_run_and_stay_for_another_that_has_them_too() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), content(PIECE + 10));
    let server = FileServer::start(whole.clone(), &[]).await;
    let store = sqlite(&folder);
    let engine = builder_on(&store).start().await.unwrap();
    let fetch = async |id: &str| {
        let run = engine.start::<Fetch>(server.url.clone()).id(id).await.unwrap();
        run.result().await.unwrap()
    };
    let (first, second) = (fetch("first").await, fetch("second").await);
    let purge = async |id: &str| store.purge(&RunId::new(id).unwrap(), None).await.unwrap();
    assert_eq!(purge("first").await, Purged::Deleted);
    let read = async |download: Download| engine.start::<Read>(download).await.unwrap().result().await;
    assert_eq!(read(second.clone()).await.unwrap().1, sha256(&whole));
    assert_eq!(purge("second").await, Purged::Deleted);
    for download in [first, second] {
        let Err(RunError::Failed(failure)) = read(download).await else { panic!("the run must fail") };
        assert!(failure.to_string().contains("piece 0 is not in the store"), "{failure}");
        assert_eq!(failure.class(), FailureClass::Permanent);
    }
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_piece_that_was_altered_is_not_read() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), content(2 * PIECE));
    let server = FileServer::start(whole.clone(), &[]).await;
    let store = sqlite(&folder);
    let engine = builder_on(&store).start().await.unwrap();
    let download = engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await.unwrap();
    let name = sha256(&whole[PIECE..]);
    rusqlite::Connection::open(folder.path().join("agent.db"))
        .unwrap()
        .execute("UPDATE aether_blobs SET bytes = zeroblob(1048576) WHERE hash = ?1", [name])
        .unwrap();
    let error = engine.start::<Read>(download).await.unwrap().result().await.unwrap_err();
    assert!(error.to_string().contains("piece 1 was altered in the store"), "{error}");
    engine.shutdown().await.unwrap();
}

/// Whether a file of the folder holds `text`.
fn holds(folder: &Path, text: &[u8]) -> bool {
    let mut files =
        std::fs::read_dir(folder).unwrap().filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
    files.any(|bytes| bytes.windows(text.len()).any(|window| window == text))
}

#[tokio::test]
async fn a_codec_covers_the_pieces() {
    let whole: Vec<u8> = b"the whole of the secret plan; ".iter().copied().cycle().take(PIECE + 10).collect();
    let keys = || {
        let key = |letter: &str| SecretKey::from_base64(&format!("{}=", letter.repeat(43))).unwrap();
        Encryption::new(Keys::new("2026", key("A"), key("Q")))
    };
    for encrypts in [false, true] {
        let (folder, server) = (tempfile::tempdir().unwrap(), FileServer::start(whole.clone(), &[]).await);
        let store = sqlite(&folder);
        let engine = builder_on(&store);
        let engine = if encrypts { engine.payload_codec(keys()) } else { engine };
        let engine = engine.start().await.unwrap();
        let run = engine.start::<FetchAndRead>(server.url.clone()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), (whole.len() as u64, sha256(&whole)));
        assert_eq!(holds(folder.path(), b"secret plan"), !encrypts);
        if encrypts {
            let name = sha256(&whole[..PIECE]);
            assert_eq!(
                store.blob(run.id(), &name).await.unwrap(),
                None,
                "not even its digest is in the open"
            );
            let coded = CodedStore::new(Arc::clone(&store), Some(Arc::new(keys())));
            assert_eq!(coded.blob(run.id(), &name).await.unwrap().as_deref(), Some(&whole[..PIECE]));
        }
        engine.shutdown().await.unwrap();
    }
}

workflow!(FetchUnredacted(cx, url: String) -> Download {
    Ok(cx.http().get(url).unredacted().download().await?)
});

#[tokio::test]
async fn an_engine_that_redacts_keeps_a_download_only_where_the_program_says_so() {
    let server = FileServer::start(b"token=very-secret".to_vec(), &[]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).redact(Masking::standard()).start().await.unwrap();
    let Err(RunError::Failed(failure)) =
        engine.start::<Fetch>(server.url.clone()).await.unwrap().result().await
    else {
        panic!("the run must fail");
    };
    assert!(failure.to_string().contains("say so with `.unredacted()`"), "{failure}");
    assert_eq!((failure.class(), server.asked().len()), (FailureClass::Permanent, 0));
    let download = engine.start::<FetchUnredacted>(server.url.clone()).await.unwrap().result().await.unwrap();
    assert_eq!(download.sha256, sha256(b"token=very-secret"));
}

#[tokio::test]
async fn a_fork_has_the_pieces_that_its_journal_names() {
    let whole = content(PIECE + 10);
    let server = FileServer::start(whole.clone(), &[]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).start().await.unwrap();
    let run = engine.start::<FetchAndRead>(server.url.clone()).id("origin").await.unwrap();
    run.result().await.unwrap();
    let plan = engine.fork(run.id()).before("1:digest_of").plan().await.unwrap();
    let fork = plan.id("fork").start("ada").await.unwrap();
    let read = engine.handle::<FetchAndRead>("fork").await.unwrap().result().await.unwrap();
    assert_eq!(read, (whole.len() as u64, sha256(&whole)));
    assert_eq!(store.purge(run.id(), None).await.unwrap(), Purged::Deleted);
    for piece in whole.chunks(PIECE) {
        assert!(store.blob(fork.id(), &sha256(piece)).await.unwrap().is_some());
    }
    let download: Download = exchanges(&store, fork.id()).await[0].response.decode().unwrap();
    let reading = engine.start::<Read>(download).await.unwrap().result().await.unwrap();
    assert_eq!(reading.1, sha256(&whole));
    assert_eq!(server.asked().len(), 1);
}

workflow!(FetchAndSend(cx, base: String) -> u16 {
    let download = cx.http().get(&base).download().await?;
    let sent = cx.http().put(&base).timeout(IDLE).body_from(&download).idempotent().send().await?;
    Ok(sent.status)
});

#[tokio::test]
async fn a_download_is_sent_on_with_its_length_and_its_digest_recorded_in_its_place() {
    let whole = content(2 * PIECE + 10);
    let server = FileServer::start(whole.clone(), &[]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).provide(big()).start().await.unwrap();
    let run = engine.start::<FetchAndSend>(server.url.clone()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 200);
    let sent = server.asked().pop().unwrap();
    assert_eq!((sent.bytes, &sent.sha256), (whole.len(), &sha256(&whole)));
    assert_eq!(header(&sent.head, "content-length"), Some(&*whole.len().to_string()));
    let key = store.entries(run.id()).await.unwrap()[0].key.to_string();
    assert_eq!(header(&sent.head, "idempotency-key"), Some(&*key));
    let recorded = exchanges(&store, run.id()).await.pop().unwrap().request;
    let text = format!(r#""body_from":{{"bytes":{},"sha256":"{}"}}"#, whole.len(), sha256(&whole));
    assert!(recorded.as_str().contains(&text), "{recorded:?}");
    verify(&engine, run.id()).await;
}

/// A client whose answers may be as large as what was sent.
fn big() -> HttpClient {
    HttpClient::builder().max_body(8 * PIECE).build().unwrap()
}

step!(send_file(cx, args: (String, String)) -> u16, StepOptions::of(EffectClass::Tool), {
    let (url, path) = args;
    Ok(cx.http().post(url).body_from(Path::new(&path)).send().await?.status)
});

workflow!(SendFile(cx, args: (String, String)) -> u16 {
    Ok(call_step::<send_file>(cx, send_file::encode(&args)).await?)
});

workflow!(SendFileHere(cx, args: (String, String)) -> u16 {
    Ok(cx.http().post(args.0).body_from(Path::new(&args.1)).send().await?.status)
});

#[tokio::test]
async fn a_file_is_sent_with_its_length_and_its_digest_recorded_in_its_place() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), content(600_000));
    for (name, content) in [("full", &whole[..]), ("empty", &[])] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let server = FileServer::start(b"thanks".to_vec(), &[]).await;
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = builder_on(&store).start().await.unwrap();
        let args = (server.url.clone(), path.to_str().unwrap().to_owned());
        let runs = [
            engine.start::<SendFile>(args.clone()).id("step").await.unwrap().result().await,
            engine.start::<SendFileHere>(args.clone()).id("workflow").await.unwrap().result().await,
        ];
        assert!(runs.iter().all(|sent| sent.as_ref().is_ok_and(|status| *status == 200)), "{runs:?}");
        for (sent, id) in server.asked().iter().zip(["step", "workflow"]) {
            assert_eq!((sent.bytes, &sent.sha256), (content.len(), &sha256(content)));
            assert_eq!(header(&sent.head, "content-length"), Some(&*content.len().to_string()));
            let run = RunId::new(id).unwrap();
            let recorded = exchanges(&store, &run).await.pop().unwrap().request;
            let text = format!(r#""bytes":{},"sha256":"{}""#, content.len(), sha256(content));
            assert!(recorded.as_str().contains(&text), "{recorded:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_not_sent() {
    let server = FileServer::start(b"thanks".to_vec(), &[]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing"), folder.path().to_owned()] {
        let args = (server.url.clone(), path.to_str().unwrap().to_owned());
        let result = engine.start::<SendFileHere>(args).await.unwrap().result().await;
        let Err(RunError::Failed(failure)) = result else { panic!("the run must fail") };
        assert!(failure.to_string().contains("the request cannot be built: file `"), "{failure}");
        assert_eq!(failure.class(), FailureClass::Permanent);
    }
    assert!(server.asked().is_empty());
}

/// A cassette and the scripts of a test give answers as values: to the program they are downloads like all others.
#[tokio::test]
async fn an_answer_from_a_cassette_is_a_download_too() {
    let (folder, whole) = (tempfile::tempdir().unwrap(), b"from a cassette".to_vec());
    let server = FileServer::start(whole.clone(), &[]).await;
    for mode in [Mode::Record, Mode::Replay] {
        let cassette = Cassette::open(folder.path().join("files.json"), mode).unwrap();
        let client = HttpClient::builder().cassette(&cassette).build().unwrap();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = builder_on(&store).provide(client).start().await.unwrap();
        let run = engine.start::<FetchAndRead>(server.url.clone()).await.unwrap();
        assert_eq!(run.result().await.unwrap(), (whole.len() as u64, sha256(&whole)));
        verify(&engine, run.id()).await;
        engine.shutdown().await.unwrap();
    }
    assert_eq!(server.asked().len(), 1);
    let response = HttpResponse {
        method: "GET".into(),
        url: "https://h/".into(),
        redirected_to: Some("https://there/".into()),
        status: 500,
        headers: [("retry-after".to_owned(), "7".to_owned())].into(),
        body: Body::Text("broken".into()),
    };
    let download = Download::from(response);
    let text = serde_json::to_string(&download).unwrap();
    assert_eq!(serde_json::from_str::<Download>(&text).unwrap(), download);
    assert_eq!(download.retry_after(), Some(Duration::from_secs(7)));
    let failure = Failure::from(download.error_for_status().unwrap_err());
    assert!(failure.to_string().contains("the body starts \"broken\""), "{failure}");
}

workflow!(SendFileTwice(cx, args: (String, String)) -> u16 {
    let file = Upload::from(Path::new(&args.1));
    let mut sent = 0;
    for _ in 0..2 {
        sent += cx.http().put(&args.0).body_from(file.clone()).send().await?.status;
    }
    Ok(sent)
});

#[tokio::test]
async fn a_file_that_is_sent_twice_is_known_by_its_path_both_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice");
    std::fs::write(&path, b"the file").unwrap();
    let server = FileServer::start(b"thanks".to_vec(), &[]).await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let engine = builder_on(&store).start().await.unwrap();
    let args = (server.url.clone(), path.to_str().unwrap().to_owned());
    let run = engine.start::<SendFileTwice>(args).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 400);
    for exchange in exchanges(&store, run.id()).await {
        let text = exchange.request.as_str();
        assert!(text.contains(r#""bytes":8"#) && text.contains(&sha256(b"the file")), "{text}");
    }
    // As another process does it: nothing is sent by which the second request could be known.
    verify(&engine, run.id()).await;
}
