//! An estimate by a small generator written by hand
//! how: clean

use aether::prelude::*;

struct SplitMix(u64);

impl Iterator for SplitMix {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Some(z ^ (z >> 31))
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

fn pi(seed: u64, points: usize) -> f64 {
    let mut random = SplitMix(seed).map(unit);
    let mut inside = 0_u32;
    for _ in 0..points {
        if let (Some(x), Some(y)) = (random.next(), random.next())
            && x.mul_add(x, y * y) <= 1.0
        {
            inside += 1;
        }
    }
    4.0 * f64::from(inside) / points as f64
}

#[workflow]
pub async fn own_generator_monte_carlo(cx: &mut Cx, _input: u64) -> Result<String> {
    Ok(format!("{:.4}", pi(cx.random().await, 2000)))
}
