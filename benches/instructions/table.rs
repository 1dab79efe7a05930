//! The table of counts in `benches/instructions.txt`: a head of comments, then one line for each part.

use std::path::PathBuf;

use super::Result;
use super::parts::Part;

/// How many percent more than the table says fail; so many less are worth a new table.
const PERCENT: f64 = 5.0;

fn place() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/instructions.txt")
}

/// What the table says of a part.
fn said(table: &str, part: Part) -> Result<u64> {
    let mut lines = table.lines().filter_map(|line| line.split_once(char::is_whitespace));
    let (_, rest) = lines
        .find(|(name, _)| *name == part.name())
        .ok_or_else(|| format!("the table has no line for {}: scripts/instructions --bless", part.name()))?;
    Ok(rest.split_whitespace().next().unwrap_or_default().parse()?)
}

/// Compares, and tells. Whether nothing needs more than it may.
pub(crate) fn check(counted: &[(Part, u64)]) -> Result<bool> {
    let table = std::fs::read_to_string(place())?;
    let (mut more, mut less) = (false, false);
    for &(part, count) in counted {
        let said = said(&table, part)?;
        let percent = (count as f64 / said as f64 - 1.0) * 100.0;
        println!("{:<10} {count:>9} instructions, {percent:+.2} % of {said}", part.name());
        more |= percent > PERCENT;
        less |= percent < -PERCENT;
    }
    if more {
        println!(
            "A part needs over {PERCENT} % more than benches/instructions.txt says. To see where: `valgrind --tool=callgrind` \
             on this program with `perform PART STEPS`, before and after. If it has to be: scripts/instructions --bless"
        );
    } else if less {
        println!(
            "A part needs over {PERCENT} % less: the table can be lowered by scripts/instructions --bless"
        );
    }
    Ok(!more)
}

/// Writes the counts below the comments that are there.
pub(crate) fn write(counted: &[(Part, u64)]) -> Result<()> {
    let before = std::fs::read_to_string(place()).unwrap_or_default();
    let mut table: String =
        before.lines().filter(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    for (part, count) in counted {
        table.push_str(&format!("{:<10} {count:>9}  {}\n", part.name(), part.is_what()));
    }
    print!("{table}");
    Ok(std::fs::write(place(), table)?)
}
