//! Which statements the body of a transaction step may make, by their first words.
//!
//! Promise: what would end the transaction, outlive it, or leave the connection in another state is refused before it is
//! sent. A statement is sent alone, with the extended protocol, so that nothing hides behind its first word. Everything
//! that is not known to be harmless is refused.

/// What is wrong with a statement, as it follows "must not".
pub(crate) fn refusal(sql: &str) -> Option<String> {
    let words = first_words(sql);
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match word(0) {
        "SELECT" | "TABLE" | "VALUES" | "WITH" | "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "EXPLAIN"
        | "SHOW" | "LOCK" | "TRUNCATE" | "ALTER" | "DROP" | "COMMENT" | "GRANT" | "REVOKE" | "REFRESH"
        | "NOTIFY" | "DO" | "CALL" => None,
        "CREATE" => is_temporary(&words[1..]).then(|| {
            "create temporary objects: they would outlive the step on a connection of the store's".into()
        }),
        "SET" => (!is_local(word(1), word(2))).then(|| {
            "change the session: only `SET LOCAL` and `SET CONSTRAINTS` end with the transaction".into()
        }),
        "RESET" | "DISCARD" => Some("change the session".into()),
        "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => {
            Some("begin, commit or roll back: the engine does that with the step's outcome".into())
        }
        "PREPARE" | "EXECUTE" | "DEALLOCATE" | "DECLARE" | "FETCH" | "MOVE" | "CLOSE" => Some(
            "keep prepared statements, prepared transactions or cursors on a connection of the store's"
                .into(),
        ),
        "LISTEN" | "UNLISTEN" => Some("listen: the connection is the store's".into()),
        "COPY" => Some(
            "use `COPY`: insert the rows of an array with `unnest`, or use a connection of your own".into(),
        ),
        "" => Some("be empty".into()),
        other => Some(format!("use `{other}`: use a connection of your own")),
    }
}

fn is_temporary(words: &[String]) -> bool {
    let plain = words.iter().find(|word| !matches!(word.as_str(), "OR" | "REPLACE" | "LOCAL" | "GLOBAL"));
    plain.is_some_and(|word| matches!(word.as_str(), "TEMP" | "TEMPORARY"))
}

fn is_local(first: &str, second: &str) -> bool {
    first == "CONSTRAINTS" || (first == "LOCAL" && !matches!(second, "ROLE" | "SESSION" | "TRANSACTION" | ""))
}

/// The first words in capitals, as many as decide.
fn first_words(sql: &str) -> Vec<String> {
    let (mut words, mut rest) = (Vec::new(), sql);
    while words.len() < 6 {
        rest = without_blanks(rest, words.is_empty());
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if end == 0 {
            break;
        }
        words.push(rest[..end].to_ascii_uppercase());
        rest = &rest[end..];
    }
    words
}

/// Without what stands before a word: spaces, comments and, before the first word, parentheses and empty statements.
fn without_blanks(mut sql: &str, first: bool) -> &str {
    loop {
        let trimmed =
            sql.trim_start_matches(|c: char| c.is_whitespace() || (first && (c == ';' || c == '(')));
        let behind = match trimmed {
            comment if comment.starts_with("--") => comment.split_once('\n').map_or("", |(_, behind)| behind),
            comment if comment.starts_with("/*") => behind_comment(comment),
            other => return other,
        };
        sql = behind;
    }
}

/// What follows a comment; comments of Postgres contain comments.
fn behind_comment(sql: &str) -> &str {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(two) = sql.as_bytes().get(at..at + 2) {
        match two {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return &sql[at..];
                }
            }
            _ => at += 1,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_rows_and_tables_is_allowed() {
        for sql in [
            "select 1",
            "  -- why\n /* a /* b */ c */ INSERT INTO t VALUES($1)",
            "(SELECT 1) UNION (SELECT 2)",
            "WITH a AS (UPDATE t SET x = 1 RETURNING x) SELECT * FROM a",
            "create table temp_notes(x int)",
            "CREATE OR REPLACE VIEW v AS SELECT 1",
            "SET LOCAL work_mem = '64MB'",
            "set constraints all deferred",
            "NOTIFY changed",
            "DO $$ BEGIN PERFORM 1; END $$",
        ] {
            assert_eq!(refusal(sql), None, "{sql}");
        }
    }

    #[test]
    fn what_would_end_or_outlive_the_transaction_is_refused() {
        for (sql, why) in [
            ("COMMIT", "begin, commit or roll back"),
            ("; ;commit", "begin, commit or roll back"),
            ("/* COMMIT */ rollback", "begin, commit or roll back"),
            ("-- a\r\nSAVEPOINT x", "begin, commit or roll back"),
            ("PREPARE TRANSACTION 'x'", "prepared transactions"),
            ("SET ROLE admin", "change the session"),
            ("SET LOCAL ROLE admin", "change the session"),
            ("SET LOCAL SESSION AUTHORIZATION x", "change the session"),
            ("SET search_path = x", "change the session"),
            ("SET LOCAL", "change the session"),
            ("DISCARD ALL", "change the session"),
            ("CREATE TEMP TABLE x(y int)", "temporary objects"),
            ("create or replace temporary view x as select 1", "temporary objects"),
            ("CREATE LOCAL /* */ TEMPORARY TABLE x(y int)", "temporary objects"),
            ("COPY t FROM STDIN", "use `COPY`"),
            ("LISTEN x", "listen"),
            ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "cursors"),
            ("VACUUM", "use `VACUUM`"),
            ("", "be empty"),
            ("/* never closed", "be empty"),
            ("é", "be empty"),
        ] {
            let said = refusal(sql);
            assert!(said.as_ref().is_some_and(|said| said.contains(why)), "{sql}: {said:?}");
        }
    }
}
