//! One object file or archive: what it defines, and what each definition names, from its relocations.
//!
//! Promise: a file that cannot be understood is an error, and never a part without references.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::read::archive::ArchiveFile;
use object::{
    Architecture, BinaryFormat, File, Object, ObjectSection, ObjectSymbol, Relocation, RelocationKind,
    RelocationTarget, SectionIndex, SectionKind, SymbolKind,
};

use crate::graph::parts::{Definition, Kind, Part, ReadError, Source};

/// Reads a library or an object file.
pub(crate) fn read(file: &Path) -> Result<Vec<Part>, ReadError> {
    let shown = || file.display().to_string();
    let failed = |reason: String| ReadError::File { file: shown(), reason };
    let bytes = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    let whole = Arc::new(file.to_owned());
    let Ok(archive) = ArchiveFile::parse(&*bytes) else {
        let length = bytes.len() as u64;
        return Ok(vec![part(&bytes, &whole, (0, length), &shown())?]);
    };
    let mut parts = Vec::new();
    for member in archive.members() {
        let member = member.map_err(|error| failed(error.to_string()))?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        // Metadata of the compiler, and what a library carries for its readers.
        if !name.ends_with(".o") {
            continue;
        }
        let data = member.data(&*bytes).map_err(|error| failed(format!("{name}: {error}")))?;
        parts.push(part(data, &whole, member.file_range(), &format!("{} ({name})", shown()))?);
    }
    Ok(parts)
}

fn part(bytes: &[u8], file: &Arc<PathBuf>, range: (u64, u64), shown: &str) -> Result<Part, ReadError> {
    let failed = |error: object::Error| ReadError::File { file: shown.to_owned(), reason: error.to_string() };
    let object = File::parse(bytes).map_err(failed)?;
    let is_known = matches!(object.architecture(), Architecture::X86_64 | Architecture::Aarch64);
    if object.format() != BinaryFormat::Elf || !is_known {
        let found = format!("{:?} {:?}", object.format(), object.architecture());
        return Err(ReadError::Unsupported { file: shown.to_owned(), found });
    }
    let mut read = Reading::default();
    read.symbols(&object);
    let has_code = object.sections().any(|section| section.kind() == SectionKind::Text && section.size() > 0);
    if has_code && !read.definitions.iter().any(|definition| definition.kind == Kind::Code) {
        return Err(ReadError::Stripped { file: shown.to_owned() });
    }
    read.beginnings(&object);
    read.references(&object);
    let source = Source { file: Arc::clone(file), range };
    Ok(Part { source, definitions: read.definitions, references: read.references })
}

#[derive(Default)]
struct Reading {
    definitions: Vec<Definition>,
    references: Vec<(usize, u64)>,
    /// Section, offset in it, and definition, in this order.
    within: Vec<(u32, u64, usize)>,
    /// The definition of each symbol, by the symbol's number.
    of_symbol: Vec<Option<usize>>,
}

impl Reading {
    fn symbols(&mut self, object: &File<'_>) {
        for symbol in object.symbols() {
            let is_named = matches!(
                symbol.kind(),
                SymbolKind::Text | SymbolKind::Data | SymbolKind::Tls | SymbolKind::Unknown
            );
            let Some(name) = symbol.name().ok().filter(|name| is_named && !name.is_empty()) else { continue };
            let section = symbol.section_index().and_then(|index| object.section_by_index(index).ok());
            let at = self.definitions.len();
            if let Some(section) = &section {
                self.within.push((number(section.index()), symbol.address(), at));
            }
            self.of_symbol.resize(symbol.index().0, None);
            self.of_symbol.push(Some(at));
            self.definitions.push(Definition {
                symbol: Some(name.into()),
                is_global: symbol.is_global() || section.is_none(),
                kind: section.as_ref().map_or(Kind::Elsewhere, kind_of),
                section: section.map_or(0, |section| number(section.index())),
                start: symbol.address(),
                references: 0..0,
            });
        }
    }

    /// What precedes the first symbol of a section, such as vtables and string constants without names, is one node.
    fn beginnings(&mut self, object: &File<'_>) {
        self.within.sort_unstable();
        let named = self.within.len();
        for section in object.sections().filter(counts) {
            let of_section = number(section.index());
            let first = self.within[..named].partition_point(|(of, ..)| *of < of_section);
            let begins = self.within[..named].get(first).map(|(of, start, _)| (*of, *start));
            if begins == Some((of_section, 0)) {
                continue;
            }
            self.within.push((of_section, 0, self.definitions.len()));
            self.definitions.push(Definition {
                symbol: None,
                is_global: false,
                kind: kind_of(&section),
                section: of_section,
                start: 0,
                references: 0..0,
            });
        }
        self.within.sort_unstable();
    }

    fn references(&mut self, object: &File<'_>) {
        for section in object.sections().filter(counts) {
            let begin = self.references.len();
            for (offset, relocation) in section.relocations() {
                self.references.extend(self.target(object, &relocation).map(|to| (to, offset)));
            }
            self.references[begin..].sort_by_key(|(_, offset)| *offset);
            let mut at = begin;
            while let Some((_, offset)) = self.references.get(at) {
                let Some((definition, end)) = self.covering(number(section.index()), *offset) else { break };
                let ahead = self.references[at..].partition_point(|(_, offset)| *offset < end);
                self.definitions[definition].references = at..at + ahead;
                at += ahead;
            }
        }
    }

    fn target(&self, object: &File<'_>, relocation: &Relocation) -> Option<usize> {
        let (section, base) = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                if let Some(Some(known)) = self.of_symbol.get(index.0) {
                    return Some(*known);
                }
                // A section's own symbol: the addend says where in it.
                let symbol = object.symbol_by_index(index).ok()?;
                (symbol.section_index()?, symbol.address())
            }
            RelocationTarget::Section(index) => (index, 0),
            _ => return None,
        };
        // On x86-64 the addend is counted from the end of the field, four bytes behind its place.
        let is_relative = matches!(
            relocation.kind(),
            RelocationKind::Relative | RelocationKind::PltRelative | RelocationKind::GotRelative
        );
        let ahead = if is_relative && object.architecture() == Architecture::X86_64 { 4 } else { 0 };
        let offset = base.saturating_add_signed(relocation.addend().saturating_add(ahead));
        self.covering(number(section), offset).map(|(definition, _)| definition)
    }

    /// The definition that an offset lies in, and where the next one begins.
    fn covering(&self, section: u32, offset: u64) -> Option<(usize, u64)> {
        let after = self.within.partition_point(|(of, start, _)| (*of, *start) <= (section, offset));
        let (_, _, definition) = self.within[..after].last().filter(|(of, ..)| *of == section)?;
        let next = self.within.get(after).filter(|(of, ..)| *of == section);
        Some((*definition, next.map_or(u64::MAX, |(_, start, _)| *start)))
    }
}

/// Whether a section is of the program: tables for debuggers and for unwinding name everything.
fn counts<'a>(section: &impl ObjectSection<'a>) -> bool {
    let name = section.name().unwrap_or_default();
    !name.starts_with(".debug") && !name.starts_with(".eh_frame") && !name.starts_with(".llvm")
}

fn kind_of<'a>(section: &impl ObjectSection<'a>) -> Kind {
    let name = section.name().unwrap_or_default();
    match section.kind() {
        SectionKind::Text => Kind::Code,
        SectionKind::Tls | SectionKind::UninitializedTls => Kind::ThreadLocal,
        // Written by the linker alone, and read-only from then on.
        SectionKind::Data if name.starts_with(".data.rel.ro") => Kind::Constant,
        SectionKind::Data | SectionKind::UninitializedData => Kind::Static,
        _ => Kind::Constant,
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a file has fewer sections")]
fn number(section: SectionIndex) -> u32 {
    section.0 as u32
}
