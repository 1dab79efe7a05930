#![deny(warnings)]

use aether::prelude::*;

fn double(x: u32) -> u32 {
    x * 2
}

struct Server {
    addr: String,
}

impl Server {
    fn addr(&self) -> &str {
        &self.addr
    }
}

macro_rules! counted {
    ($name:ident, $body:expr) => {{
        let $name = 3_u32;
        $body
    }};
}

#[workflow(macros(counted))]
async fn flow(cx: &mut Cx, count: u32, r#type: u8) -> Result<usize> {
    let _ = &cx;
    #[derive(Clone, Copy)]
    enum Level {
        Low = 1,
    }
    impl Level {
        fn rank(self) -> usize {
            self as usize
        }
    }
    let ways: [fn(u32) -> u32; 2] = [double as fn(u32) -> u32, |x| x];
    let text = format!("{:?}", [1_u32, 2].iter().map(|&each| each as usize).collect::<Vec<_>>());
    let many = matches!(Some(count), Some(n) if 3 == n as usize);
    let server = Server { addr: text };
    let alone = std::slice::from_ref(&server).len() + counted!(inner, inner as usize);
    let (a, b) = (count as usize, u32::MAX as u64);
    let first = if let Some(found) = ways.first() { found(count) as usize } else { 0 };
    let _ = (many, b, Level::Low as usize, Level::Low.rank(), server.addr());
    Ok(a + alone + first + r#type as usize)
}

fn main() {}
