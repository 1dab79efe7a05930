//! Servers of models that say what they are told to, and break off where they are told to.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a server says to one request: pieces of a body, and whether it says that the body is whole.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    /// More headers, each with its end of line.
    pub(crate) headers: String,
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) ends: bool,
}

impl Said {
    pub(crate) fn events(events: &[String]) -> Self {
        let pieces = events.iter().map(|event| event.clone().into_bytes()).collect();
        Self { status: 200, kind: "text/event-stream", headers: String::new(), pieces, ends: true }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let pieces = vec![body.to_string().into_bytes()];
        Self { status, kind: "application/json", headers: String::new(), pieces, ends: true }
    }

    /// Only so many pieces, then the connection breaks.
    pub(crate) fn cut(&self, pieces: usize) -> Self {
        Self { pieces: self.pieces[..pieces].to_vec(), ends: false, ..self.clone() }
    }

    /// Only so many pieces, and the server says that this was all.
    pub(crate) fn short(&self, pieces: usize) -> Self {
        Self { pieces: self.pieces[..pieces].to_vec(), ..self.clone() }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// Its first line and its headers.
    pub(crate) head: String,
    pub(crate) body: Value,
}

/// A server that says these, one after the other, and keeps the requests.
pub(crate) async fn server(said: Vec<Said>) -> (String, Arc<Mutex<Vec<Heard>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    tokio::spawn(async move {
        for said in said {
            let (stream, _) = listener.accept().await.unwrap();
            answer(stream, said, &heard).await;
        }
    });
    (url, asked)
}

async fn answer(mut stream: TcpStream, said: Said, heard: &Mutex<Vec<Heard>>) {
    let mut bytes_read = Vec::new();
    let request = loop {
        let mut bytes = [0; 8 << 10];
        let read = stream.read(&mut bytes).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        bytes_read.extend_from_slice(&bytes[..read]);
        let text = String::from_utf8_lossy(&bytes_read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str::<Value>(body)
        {
            break Heard { head: head.to_owned(), body };
        }
    };
    heard.lock().unwrap().push(request);
    let head = format!(
        "HTTP/1.1 {} x\r\ncontent-type: {}\r\nx-request-id: req-7\r\n{}connection: close\r\ntransfer-encoding: chunked\r\n\r\n",
        said.status, said.kind, said.headers
    );
    let _gone = stream.write_all(head.as_bytes()).await;
    for piece in &said.pieces {
        let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
        let _gone = stream.write_all(&chunk).await;
        let _gone = stream.flush().await;
    }
    if said.ends {
        let _gone = stream.write_all(b"0\r\n\r\n").await;
    }
}
