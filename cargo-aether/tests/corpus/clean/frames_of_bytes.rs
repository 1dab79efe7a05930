//! Frames that are written to and read from a buffer
//! how: clean

use aether::prelude::*;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use smallvec::{SmallVec, smallvec};

fn encode(messages: &[&str]) -> Bytes {
    let mut buffer = BytesMut::with_capacity(64);
    for message in messages {
        buffer.put_u8(0x7e);
        buffer.put_u16(message.len() as u16);
        buffer.put_slice(message.as_bytes());
    }
    buffer.freeze()
}

fn decode(mut data: Bytes) -> std::result::Result<SmallVec<[Bytes; 4]>, String> {
    let mut frames = smallvec![];
    while data.has_remaining() {
        if data.remaining() < 3 || data.get_u8() != 0x7e {
            return Err(format!("no frame with {} bytes left", data.remaining()));
        }
        let length = usize::from(data.get_u16());
        if data.remaining() < length {
            return Err(format!("{} bytes missing", length - data.remaining()));
        }
        frames.push(data.split_to(length));
    }
    Ok(frames)
}

#[workflow]
pub async fn frames_of_bytes(cx: &mut Cx, _input: u64) -> Result<String> {
    let name = format!("{:x}", cx.random().await);
    let data = encode(&["hello", &name, ""]);
    let cut = data.slice(..data.len() - 4);
    Ok(format!("{:?} {:?}", decode(data)?, decode(cut)))
}
