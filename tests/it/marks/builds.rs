//! The builds of one program: modules with workflows of the same names, whose code differs in marks and what is behind them.

use std::time::Duration;

use aether::prelude::*;

use crate::seeds::kit::Calls;

/// Where the builds are.
pub(crate) const MODULE: &str = module_path!();

/// Say a word to the world.
#[step(effect = "tool", idempotent, on_unknown = "retry")]
pub(crate) async fn say(cx: &mut StepCx, word: &str) -> Result<String> {
    cx.dep::<Calls>()?.add(cx.command_id().as_str(), word);
    Ok(word.to_owned())
}

/// A build: a shop in which the code `$place` stands in sequence, in branches, in items, in a loop, in an inline workflow
/// and in a race, and `$tail` behind the last command of items and branches.
macro_rules! build {
    ($module:ident, $cx:ident, $said:ident, { $($place:tt)* }, { $($tail:tt)* }) => {
        #[allow(dead_code, reason = "a build is found by its name in a journal, and not called")]
        pub(crate) mod $module {
            use super::*;

            #[workflow]
            pub(crate) async fn inner($cx: &mut Cx) -> Result<Vec<String>> {
                let mut $said = vec![say($cx, "in").await?];
                $($place)*
                Ok($said)
            }

            #[workflow]
            pub(crate) async fn shop($cx: &mut Cx) -> Result<Vec<String>> {
                let mut $said = vec![say($cx, "open").await?];
                $($place)*
                let (left, right) = $cx
                    .join((
                        async |$cx: &mut Cx| {
                            let mut $said = vec![];
                            $($place)*
                            $said.push(say($cx, "left").await?);
                            $($tail)*
                            Ok::<_, Failure>($said)
                        },
                        async |$cx: &mut Cx| {
                            let mut $said = vec![say($cx, "right").await?];
                            $($place)*
                            $said.push(say($cx, "far right").await?);
                            Ok::<_, Failure>($said)
                        },
                    ))
                    .await;
                $said.extend(left?);
                $said.extend(right?);
                let items = $cx
                    .each(0..3, async |$cx: &mut Cx, _| {
                        let mut $said = vec![say($cx, "item").await?];
                        $($place)*
                        $($tail)*
                        Ok::<_, Failure>($said)
                    })
                    .limit(2)
                    .await;
                for item in items {
                    $said.extend(item?);
                }
                for _round in 0..2 {
                    $($place)*
                }
                $said.extend(inner($cx).await?);
                let won = $cx
                    .race((
                        async |$cx: &mut Cx| {
                            let mut $said = vec![];
                            $($place)*
                            $($tail)*
                            Ok::<_, Failure>($said)
                        },
                        async |$cx: &mut Cx| {
                            $cx.sleep(Duration::from_secs(3600)).await;
                            Ok(vec![])
                        },
                    ))
                    .await;
                $said.extend(won?);
                Ok($said)
            }

            /// No command of the run is in front of the marks, and every branch is at another place when the run dies.
            #[workflow]
            pub(crate) async fn crowd($cx: &mut Cx) -> Result<Vec<String>> {
                let (early, items, raced, late) = $cx
                    .join((
                        async |$cx: &mut Cx| {
                            let mut $said = vec![say($cx, "a").await?, say($cx, "b").await?];
                            $($place)*
                            $($tail)*
                            Ok::<_, Failure>($said)
                        },
                        async |$cx: &mut Cx| {
                            let items = $cx
                                .each(0..4, async |$cx: &mut Cx, item| {
                                    let mut $said = vec![];
                                    for _ in 0..item {
                                        $said.push(say($cx, "item").await?);
                                    }
                                    $($place)*
                                    $($tail)*
                                    Ok::<_, Failure>($said)
                                })
                                .limit(1)
                                .await;
                            items.into_iter().collect::<Result<Vec<_>>>()
                        },
                        async |$cx: &mut Cx| {
                            $cx.race((
                                async |$cx: &mut Cx| {
                                    let mut $said = vec![say($cx, "c").await?, say($cx, "d").await?];
                                    $($place)*
                                    $($tail)*
                                    Ok::<_, Failure>($said)
                                },
                                async |$cx: &mut Cx| {
                                    $cx.sleep(Duration::from_secs(3600)).await;
                                    Ok(vec![])
                                },
                            ))
                            .await
                        },
                        async |$cx: &mut Cx| {
                            let mut $said = vec![];
                            $($place)*
                            $said.push(say($cx, "late").await?);
                            Ok::<_, Failure>($said)
                        },
                    ))
                    .await;
                let mut $said = early?;
                $said.extend(items?.into_iter().flatten().chain(raced?).chain(late?));
                Ok($said)
            }
        }
    };
}

build!(
    plain,
    cx,
    said,
    {
        said.push(say(cx, "foo").await?);
    },
    {}
);
build!(
    added,
    cx,
    said,
    {
        said.push(match cx.version("use-baz", 1..=2).await {
            1 => say(cx, "foo").await?,
            _ => say(cx, "baz").await?,
        });
    },
    {
        if cx.version("tail", 1..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    two,
    cx,
    said,
    {
        let newer = cx.version("use-baz", 1..=2).await == 2;
        if cx.version("greet", 1..=2).await == 2 {
            said.push(say(cx, "hello").await?);
        }
        said.push(say(cx, if newer { "baz" } else { "foo" }).await?);
    },
    {
        if cx.version("tail", 1..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    raised,
    cx,
    said,
    {
        cx.version("use-baz", 2..=2).await;
        if cx.version("greet", 1..=2).await == 2 {
            said.push(say(cx, "hello").await?);
        }
        said.push(say(cx, "baz").await?);
    },
    {
        if cx.version("tail", 1..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    dropped,
    cx,
    said,
    {
        if cx.version("greet", 2..=2).await == 2 {
            said.push(say(cx, "hello").await?);
        }
        said.push(say(cx, "baz").await?);
    },
    {
        if cx.version("tail", 2..=2).await == 2 {
            said.push(say(cx, "tail").await?);
        }
    }
);
build!(
    bare,
    cx,
    said,
    {
        said.push(say(cx, "hello").await?);
        said.push(say(cx, "baz").await?);
    },
    {
        said.push(say(cx, "tail").await?);
    }
);
