//! The verifiers that ship, row 34 of the seeds: real files and a real HTTP server that were changed meanwhile.

use aether::prelude::*;
use aether::resource::HttpVerifier;
use wiremock::matchers::method;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::confirmation::about;
use super::kit::{Calls, Journal, Rows, builder, failed, in_time, stores};

/// Write or remove a file.
#[step(effect = "tool", changes = ["file"])]
async fn write_file(cx: &mut StepCx, path: String, text: Option<String>) -> Result<()> {
    Calls::note(cx)?;
    match text {
        Some(text) => std::fs::write(&path, text)?,
        None => std::fs::remove_file(&path)?,
    }
    cx.changed_file(&path)
}

/// Write one file, and remove another.
#[workflow]
async fn seed_files(cx: &mut Cx, folder: String) -> Result<u32> {
    write_file(cx, format!("{folder}/new"), Some("hello".into())).await?;
    write_file(cx, format!("{folder}/old"), None).await?;
    Ok(2)
}

#[tokio::test]
async fn s034_files_are_as_they_were_left_or_the_run_fails() {
    for place in stores() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        std::fs::write(&old, "bye").unwrap();
        let input = folder.path().to_str().unwrap().to_owned();
        let journal = Journal::record::<seed_files>("files", input).await.open();
        let tampered: [(&str, &dyn Fn()); 4] = [
            ("", &|| {}),
            ("5 bytes, sha256:", &|| std::fs::write(&new, "hallo").unwrap()),
            ("absent", &|| std::fs::remove_file(&new).unwrap()),
            ("4 bytes, sha256:", &|| std::fs::write(&old, "back").unwrap()),
        ];
        for (found, tamper) in tampered {
            std::fs::write(&new, "hello").unwrap();
            let _was_not_there = std::fs::remove_file(&old);
            tamper();
            let (place, calls) = (place(), Calls::default());
            journal.plant(&place.store, Rows::Follow).await;
            let engine = builder(&place.store, &calls).start().await.unwrap();
            let result = in_time(engine.handle::<seed_files>("files").await.unwrap().result()).await;
            match found {
                "" => assert_eq!(result.unwrap(), 2),
                found => {
                    let failure = failed(result);
                    assert!(about(&failure).found.starts_with(found), "{failure}");
                    assert_ne!(about(&failure).expected, about(&failure).found);
                }
            }
            assert_eq!(calls.all(), 0);
        }
    }
}

/// Put something on a server.
#[step(effect = "http", changes = ["http"])]
async fn put(cx: &mut StepCx, url: String) -> Result<u16> {
    Calls::note(cx)?;
    let answer = cx.http().put(&url).json(&"new").send().await?.error_for_status()?;
    cx.changed_http(&url, &answer);
    Ok(answer.status)
}

/// Put something on a server, and look at what came of it.
#[step(effect = "http", changes = ["http"])]
async fn put_and_get(cx: &mut StepCx, url: String) -> Result<u16> {
    Calls::note(cx)?;
    cx.http().put(&url).json(&"new").send().await?.error_for_status()?;
    let answer = cx.http().get(&url).send().await?;
    cx.changed_http(&url, &answer);
    Ok(answer.status)
}

/// Put something in two ways.
#[workflow]
async fn seed_put(cx: &mut Cx, base: String) -> Result<u16> {
    Ok(put(cx, format!("{base}/tagged")).await? + put_and_get(cx, format!("{base}/plain")).await?)
}

/// A server on which `/tagged` has an entity tag and `/plain` has a body.
async fn serve(server: &MockServer, tag: &str, body: &str, status: u16) {
    server.reset().await;
    let tagged = || ResponseTemplate::new(status).insert_header("etag", tag);
    let plain = ResponseTemplate::new(status).set_body_string(body);
    Mock::given(method("PUT")).respond_with(tagged()).mount(server).await;
    Mock::given(method("HEAD")).respond_with(tagged()).mount(server).await;
    Mock::given(method("GET")).respond_with(plain).mount(server).await;
}

#[tokio::test]
async fn s034_http_resources_are_as_they_were_left_or_the_run_fails() {
    let server = MockServer::start().await;
    serve(&server, "\"1\"", "one", 200).await;
    let journal = Journal::record::<seed_put>("put", server.uri()).await.open();
    let cases = [
        ("\"1\"", "one", 200, None),
        ("W/\"1\"", "one", 200, None),
        ("\"2\"", "one", 200, Some(("tagged", "\"2\""))),
        ("\"1\"", "two", 200, Some(("plain", "sha256:"))),
        ("\"1\"", "one", 404, Some(("tagged", "status 404"))),
        ("\"1\"", "one", 403, Some(("tagged", "answers 403"))),
    ];
    for place in stores() {
        for (tag, body, status, mismatch) in cases {
            serve(&server, tag, body, status).await;
            let (place, calls) = (place(), Calls::default());
            journal.plant(&place.store, Rows::Follow).await;
            let engine = builder(&place.store, &calls).verifier("http", HttpVerifier::default());
            let engine = engine.start().await.unwrap();
            let result = in_time(engine.handle::<seed_put>("put").await.unwrap().result()).await;
            match mismatch {
                None => assert_eq!(result.unwrap(), 400),
                Some((path, found)) => {
                    let failure = failed(result);
                    assert!(about(&failure).id.ends_with(path), "{failure}");
                    assert!(about(&failure).found.contains(found), "{failure}");
                }
            }
            assert_eq!(calls.all(), 0);
            let sent: Vec<_> = server.received_requests().await.unwrap_or_default();
            assert!(
                sent.iter().all(|request| ["HEAD", "GET"].contains(&request.method.as_str())),
                "{sent:?}"
            );
        }
    }
}
