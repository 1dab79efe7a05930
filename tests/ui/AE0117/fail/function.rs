use aether::prelude::*;

fn helper() {}

#[workflow]
async fn flow(cx: &mut Cx) -> Result<()> {
    let _ = &cx;
    let _ = helper as usize;
    let _ = helper as fn() as usize;
    let _ = (usize::from_str_radix as fn(&str, u32) -> _ as usize).to_string();
    let _ = <u32 as Default>::default as u64;
    let _ = self::helper as *const () as usize;
    let _ = format!("{}", helper as u64);
    Ok(())
}

fn main() {}
