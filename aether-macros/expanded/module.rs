mod agent {
    use std::time::SystemTime as Clock;
    type Watch = std::time::Instant;
    static STATE: Mutex<u32> = Mutex::new(0);
    fn helper() {}
    #[workflow(
        version = 2,
        allow(env, reason = "same"),
        __uses{use
        std::time::SystemTime
        as
        Clock;type
        Watch = std::time::Instant;static
        STATE:Mutex<u32>= ();struct
        helper;struct
        flow;}
    )]
    async fn flow(cx: &mut Cx) -> Result<()> {
        Ok(())
    }
}
