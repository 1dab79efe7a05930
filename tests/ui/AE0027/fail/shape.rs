#[aether::test]
fn not_async() {}

#[aether::test]
struct NotAFunction;

#[aether::test]
#[test]
async fn twice() {}

#[aether::test(timout = "5s")]
async fn unknown_option() {}

#[aether::test(timeout = 5)]
async fn no_time() {}

fn main() {}
