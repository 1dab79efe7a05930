//! Lines of source: the line programs of one object file.
//!
//! Promise: a file without debug information has no lines; a wrong one gives none, and stops nothing.

use std::collections::HashMap;

use gimli::{
    AttributeValue, ColumnType, DebugLine, DebugLineOffset, DebugLineStr, DebugStr, EndianSlice, Format,
    LittleEndian, Reader as _, Relocate, RelocateReader,
};
use object::{File, Object, ObjectSection, ObjectSymbol, RelocationTarget};

use crate::graph::parts::Source;

/// Places in sections of an object file, with the lines that they come from.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    rows: HashMap<u32, Vec<Row>>,
    files: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    offset: u64,
    file: u32,
    line: u32,
    column: u64,
}

/// What the linker would write into a section: sections of an object file have no addresses yet, so each is given a range
/// of its own.
#[derive(Clone, Debug)]
struct Moved<'a>(&'a HashMap<usize, u64>);

impl Relocate<usize> for Moved<'_> {
    fn relocate_address(&self, offset: usize, value: u64) -> gimli::Result<u64> {
        Ok(self.0.get(&offset).copied().unwrap_or(value))
    }

    fn relocate_offset(&self, offset: usize, value: usize) -> gimli::Result<usize> {
        let moved = self.0.get(&offset).and_then(|moved| usize::try_from(*moved & WITHIN).ok());
        Ok(moved.unwrap_or(value))
    }
}

/// Bits of an address that are the offset in its section.
const WITHIN: u64 = 0xffff_ffff;

type Reader<'a> = RelocateReader<EndianSlice<'a, LittleEndian>, Moved<'a>>;

/// A section of debug information, and what is to be written into it.
#[derive(Default)]
struct Loaded {
    data: Vec<u8>,
    moved: HashMap<usize, u64>,
}

impl Loaded {
    fn of(object: &File<'_>, name: &str) -> Self {
        let Some(section) = object.section_by_name(name) else { return Self::default() };
        let Ok(data) = section.uncompressed_data() else { return Self::default() };
        let moved = section.relocations().filter_map(|(offset, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let symbol = object.symbol_by_index(index).ok()?;
            let section = symbol.section_index()?.0 as u64;
            let within = symbol.address().saturating_add_signed(relocation.addend()) & WITHIN;
            Some((usize::try_from(offset).ok()?, (section << 32) + within))
        });
        Self { moved: moved.collect(), data: data.into_owned() }
    }

    fn reader(&self) -> Reader<'_> {
        RelocateReader::new(EndianSlice::new(&self.data, LittleEndian), Moved(&self.moved))
    }
}

impl Lines {
    pub(crate) fn read(source: &Source) -> Self {
        let Ok(bytes) = std::fs::read(&*source.file) else { return Self::default() };
        let range = (usize::try_from(source.range.0), usize::try_from(source.range.1));
        let (Ok(start), Ok(length)) = range else { return Self::default() };
        let member = bytes.get(start..start.saturating_add(length));
        member.and_then(|bytes| Self::parse(&File::parse(bytes).ok()?)).unwrap_or_default()
    }

    fn parse(object: &File<'_>) -> Option<Self> {
        let [line, text, line_text] =
            [".debug_line", ".debug_str", ".debug_line_str"].map(|name| Loaded::of(object, name));
        let texts =
            Texts { text: DebugStr::from(text.reader()), line_text: DebugLineStr::from(line_text.reader()) };
        let end = line.reader().len();
        let programs = DebugLine::from(line.reader());
        let (mut lines, mut known) = (Self::default(), HashMap::new());
        let mut offset = 0;
        while offset < end {
            let program = programs.program(DebugLineOffset(offset), 8, None, None).ok()?;
            let header = program.header();
            let length_field = if header.format() == Format::Dwarf64 { 12 } else { 4 };
            offset = offset.checked_add(header.unit_length())?.checked_add(length_field)?;
            let mut rows = program.rows();
            while let Ok(Some((header, row))) = rows.next_row() {
                let (Some(line), Some(file)) = (row.line(), row.file(header)) else { continue };
                let folder = file.directory(header).map(|folder| texts.of(folder)).unwrap_or_default();
                let name = texts.of(file.path_name());
                let path = if folder.is_empty() || name.starts_with('/') {
                    name
                } else {
                    format!("{folder}/{name}")
                };
                let fresh = u32::try_from(known.len()).ok()?;
                let file = *known.entry(path).or_insert_with_key(|path: &String| {
                    lines.files.push(path.clone());
                    fresh
                });
                let section = u32::try_from(row.address() >> 32).ok()?;
                let column = match row.column() {
                    ColumnType::LeftEdge => 0,
                    ColumnType::Column(column) => column.get(),
                };
                let line = u32::try_from(line.get()).ok()?;
                let row = Row { offset: row.address() & WITHIN, file, line, column };
                lines.rows.entry(section).or_default().push(row);
            }
        }
        for rows in lines.rows.values_mut() {
            rows.sort_by_key(|row| row.offset);
        }
        Some(lines)
    }

    /// File, line and column of `offset` in a function that begins at `start`: of what was inlined there, of what called it.
    pub(crate) fn at(&self, section: u32, start: u64, offset: u64) -> Option<(&str, u32, u64)> {
        let rows = self.rows.get(&section)?;
        let first = rows.partition_point(|row| row.offset < start);
        let own = rows.get(first)?.file;
        let end = rows.partition_point(|row| row.offset <= offset);
        let row = rows.get(first..end)?.iter().rev().find(|row| row.file == own && row.line > 0)?;
        Some((self.files.get(own as usize)?, row.line, row.column))
    }
}

/// Where names of files are kept, in DWARF 5 apart from the line programs.
struct Texts<'a> {
    text: DebugStr<Reader<'a>>,
    line_text: DebugLineStr<Reader<'a>>,
}

impl<'a> Texts<'a> {
    fn of(&self, value: AttributeValue<Reader<'a>>) -> String {
        let text = match value {
            AttributeValue::String(text) => Some(text),
            AttributeValue::DebugStrRef(offset) => self.text.get_str(offset).ok(),
            AttributeValue::DebugLineStrRef(offset) => self.line_text.get_str(offset).ok(),
            _ => None,
        };
        let text = text.and_then(|text| text.to_string_lossy().ok().map(|text| text.into_owned()));
        text.unwrap_or_default()
    }
}
