//! A server of one file, over bare sockets: it cuts off, stalls and dawdles as it is told, and remembers what it got.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aether_core::payload::hex;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How one request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Serving {
    Whole,
    /// The connection ends after so many bytes of the body.
    CutAt(usize),
    /// Nothing more comes after so many bytes.
    StallAt(usize),
    /// In so many parts, with a pause before each.
    Slowly(usize, Duration),
    /// Without a word on its length.
    Chunked,
    /// With this status.
    Status(u16),
}

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) bytes: usize,
    pub(crate) sha256: String,
}

pub(crate) struct FileServer {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FileServer {
    /// Answers requests as `servings` say, one after the other, and later ones with the whole of `content`.
    pub(crate) async fn start(content: Vec<u8>, servings: &[Serving]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/file", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (servings, seen, content) = (servings.to_vec(), Arc::clone(&asked), Arc::new(content));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (servings, seen, content) = (servings.clone(), Arc::clone(&seen), Arc::clone(&content));
                tokio::spawn(async move {
                    // A peer that went away is no matter of this server's.
                    let _ = answer(stream, &servings, &seen, &content).await;
                });
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until so many requests were received.
    pub(crate) async fn asked_times(&self, times: usize) {
        while self.asked.lock().unwrap().len() < times {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

async fn answer(
    mut stream: TcpStream,
    servings: &[Serving],
    seen: &Mutex<Vec<Asked>>,
    content: &[u8],
) -> std::io::Result<()> {
    let (head, mut body) = head_of(&mut stream).await?;
    let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        hash.update(&body);
        bytes += body.len();
        if bytes >= length {
            break;
        }
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            break;
        }
        body = buffer[..read].to_vec();
    }
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.push(Asked { head, bytes, sha256: hex(&hash.finalize()) });
        seen.len() - 1
    };
    serve(stream, servings.get(number).copied().unwrap_or(Serving::Whole), content).await
}

async fn head_of(stream: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let body = bytes.split_off(end + 4);
            return Ok((String::from_utf8_lossy(&bytes).into_owned(), body));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

async fn serve(mut stream: TcpStream, serving: Serving, content: &[u8]) -> std::io::Result<()> {
    let status = if let Serving::Status(status) = serving { status } else { 200 };
    let length = match serving {
        Serving::Chunked => "transfer-encoding: chunked".to_owned(),
        _ => format!("content-length: {}", content.len()),
    };
    let head = format!("HTTP/1.1 {status} As Told\r\nconnection: close\r\netag: \"1\"\r\n{length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    match serving {
        Serving::Whole | Serving::Status(_) => stream.write_all(content).await?,
        Serving::CutAt(end) => stream.write_all(&content[..end]).await?,
        Serving::StallAt(end) => {
            stream.write_all(&content[..end]).await?;
            stream.flush().await?;
            std::future::pending::<()>().await;
        }
        Serving::Slowly(parts, pause) => {
            for part in content.chunks(content.len().div_ceil(parts)) {
                tokio::time::sleep(pause).await;
                stream.write_all(part).await?;
                stream.flush().await?;
            }
        }
        Serving::Chunked => {
            for part in content.chunks(100_000) {
                stream.write_all(format!("{:x}\r\n", part.len()).as_bytes()).await?;
                stream.write_all(part).await?;
                stream.write_all(b"\r\n").await?;
            }
            stream.write_all(b"0\r\n\r\n").await?;
        }
    }
    stream.shutdown().await
}

/// Bytes that repeat themselves in no two pieces.
pub(crate) fn content(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(&mut next).flatten().take(bytes).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
