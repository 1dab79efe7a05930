#![deny(warnings)]

use aether::prelude::*;
use std::future::Future;
use std::time::Duration;

#[step(effect = "read")]
async fn fetch(cx: &mut StepCx, id: u64) -> Result<Option<u64>> {
    let _ = cx;
    Ok(id.checked_sub(1))
}

#[step(effect = "pure")]
async fn double(n: u64) -> Result<u64> {
    Ok(n.wrapping_mul(2))
}

#[workflow]
async fn control_flow(cx: &mut Cx, ids: Vec<u64>) -> Result<u64> {
    let Some(first) = ids.first().copied() else {
        return double(cx, 3).await.map_err(Into::into);
    };
    let mut sum = match fetch(cx, first).await? {
        Some(n) if n > 3 && fetch(cx, n).await?.is_some() => n,
        Some(n) => double(cx, n).await?,
        None => 0,
    };
    'outer: for id in &ids {
        while let Some(n) = fetch(cx, *id).await? {
            if n == 7 {
                continue 'outer;
            }
            sum += n;
            if sum > 100 {
                break 'outer;
            }
            if let Ok(m) = double(cx, n).await
                && m > 3
            {
                break;
            }
        }
    }
    let last = loop {
        let drawn = cx.random().await % 6;
        if drawn > 3 {
            break drawn;
        }
        cx.sleep(Duration::from_secs(1)).await;
    };
    let block = 'found: {
        for id in ids {
            if let Some(n) = fetch(cx, id).await? {
                break 'found n;
            }
        }
        0
    };
    Ok(sum + last + block)
}

#[workflow]
async fn nested(cx: &mut Cx, text: &str, items: &[u64]) -> Result<Vec<String>> {
    let inner = async {
        let n = cx.random().await;
        n + 1
    };
    drop(inner);
    let (a, (b, c)) = cx
        .join((
            async |cx: &mut Cx| format!("{text} {}", cx.random().await),
            async move |cx: &mut Cx| {
                cx.join((
                    async |cx: &mut Cx| fetch(cx, 1).await.ok().flatten(),
                    async |cx: &mut Cx| if items.is_empty() { 0 } else { cx.random().await },
                ))
                .await
            },
        ))
        .await;
    let texts = cx
        .each(items.iter().copied(), async |cx: &mut Cx, item| match double(cx, item).await {
            Ok(n) => Ok::<_, Failure>(format!("{n} {a}")),
            Err(error) => Err(error.into()),
        })
        .limit(3)
        .await;
    let mut all: Vec<String> = texts.into_iter().collect::<Result<_>>()?;
    all.push(format!("{b:?} {c}"));
    Ok(all)
}

#[workflow]
async fn generic<T, const N: usize>(cx: &mut Cx, value: T, extra: impl ToString + aether::definition::Recordable, list: [u8; N]) -> Result<(T, String)>
where
    T: Clone + PartialEq + aether::definition::Recordable,
    [u8; N]: aether::definition::Recordable,
{
    let copy = value.clone();
    let same = copy == value && cx.random().await > list.len() as u64;
    Ok((value, format!("{} {same}", extra.to_string())))
}

#[workflow]
async fn conditional(cx: &mut Cx) -> Result<u64> {
    let mut sum = 0;
    #[cfg(all())]
    {
        sum += double(cx, 1).await?;
    }
    #[cfg(any())]
    {
        sum += nothing(cx).await?;
    }
    #[cfg(any())]
    let sum = absent(cx).await;
    #[allow(unused_assignments)]
    if sum > 3 {
        sum = double(cx, sum).await?;
    }
    Ok(sum)
}

/// Each calls the other.
#[workflow]
async fn even(cx: &mut Cx, n: u32) -> Result<bool> {
    if n == 0 { Ok(true) } else { odd(cx, n - 1).await }
}

/// Each calls the other.
#[workflow]
async fn odd(cx: &mut Cx, n: u32) -> Result<bool> {
    match n.checked_sub(1) {
        Some(less) => even(cx, less).await,
        None => Ok(false),
    }
}

#[workflow]
async fn borrowing(cx: &mut Cx, name: &str, flag: Option<&str>) -> Result<usize> {
    let text = name.to_owned();
    let calls = nested(cx, &text, &[1, 2]).await?;
    let child = cx.child::<even>(4).await?;
    Ok(calls.len() + flag.map_or(0, str::len) + usize::from(child))
}

fn sent<T: Send>(value: impl Future<Output = T> + Send) -> impl Future<Output = T> + Send {
    value
}

fn main() {
    fn takes(cx: &mut Cx) {
        drop(sent(control_flow(cx, vec![1])));
        drop(sent(generic(cx, 3_u8, String::new(), [1, 2])));
        drop(sent(borrowing(cx, "a", None)));
        drop(sent(conditional(cx)));
    }
    let _ = takes;
}
