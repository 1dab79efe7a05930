//! A checksum with a table that is computed at compile time
//! how: clean

use aether::prelude::*;

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let mut value = n as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[n] = value;
        n += 1;
    }
    table
}

static TABLE: [u32; 256] = table();

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| TABLE[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[workflow]
pub async fn const_crc_table(cx: &mut Cx, _input: u64) -> Result<String> {
    let random = cx.random().await;
    Ok(format!("{:08x} {:08x}", crc(b"123456789"), crc(&random.to_be_bytes())))
}
