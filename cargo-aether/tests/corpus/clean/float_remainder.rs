//! The remainder of floats, and methods whose names are those of pointers
//! how: clean

use aether::prelude::*;

struct Peer<T>(T);

impl<T: Copy> Peer<T> {
    fn addr(&self) -> T {
        self.0
    }
}

trait Endpoint {
    fn addr(&self) -> u16;
}

impl Endpoint for f32 {
    fn addr(&self) -> u16 {
        (*self % 7.0) as u16
    }
}

fn turned(angle: f64, by: f64) -> f64 {
    (angle + by) % 360.0
}

#[workflow]
pub async fn float_remainder(cx: &mut Cx, _input: u64) -> Result<String> {
    let by = (cx.random().await % 1000) as f64;
    let port = Peer::<u16>(80).addr() + <f32 as Endpoint>::addr(&9.5);
    Ok(format!("{:.3} {port}", turned(350.0, by)))
}
