"""Reads the requests of a dataset, thousands at a time, so that neither side does anything for each alone."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dbanon.base.trajectory import Requests
from dbanon.postgres import arrow

_BLOCK_BITS = 13  # bits of an id that do not tell which block it is in
_NEWLINE_BYTE = 10  # written behind a content: no text of JSON has one in it
_SCHEMA = pa.schema(
    [("t", pa.float64()), ("subject", pa.string()), ("content", pa.dictionary(pa.int32(), pa.string()))]
)


def read(snapshot: arrow.Snapshot, dataset_id: int) -> pa.Table:
    """Read all requests of a dataset: `t` in unix seconds, `subject`, `content` as normalised JSON; in any order."""
    own = f"FROM ONLY dbanon.request WHERE dataset_id = {int(dataset_id)}"
    blocks = np.sort(
        arrow.convert_to_numbers(
            arrow.read_table(snapshot, f"SELECT DISTINCT request_id >> {_BLOCK_BITS} AS no {own}")["no"]
        )
    )
    # A table just loaded has no statistics: of its indexes, none but that of the ids may serve for a block.
    snapshot.connection.execute("SET LOCAL enable_seqscan = off")
    query = f"""SELECT piece.*
        FROM unnest({arrow.format_array(blocks)}) AS block (no)
        CROSS JOIN LATERAL (
            SELECT string_agg(timestamptz_send(sent_at), ''), string_agg(int4send(octet_length(subject)), ''),
                string_agg(subject, ''), string_agg(content::text || E'\\n', '')
            FROM ONLY dbanon.request
            WHERE dataset_id + 0 = {int(dataset_id)}
                AND request_id BETWEEN no << {_BLOCK_BITS}
                    AND (no << {_BLOCK_BITS}) + {(1 << _BLOCK_BITS) - 1}) piece"""
    batches = []
    for sent_at, size, names, lines in arrow.read_rows_of_bytes(snapshot, query):
        ends = np.append(0, np.flatnonzero(lines == _NEWLINE_BYTE) + 1)
        line = arrow.decode_texts(np.diff(ends), lines).dictionary_encode()
        content = pa.DictionaryArray.from_arrays(line.indices, pc.utf8_slice_codeunits(line.dictionary, 0, -1))
        t = arrow.convert_to_unix_s(sent_at.view(">i8").astype(np.int64))
        batches.append(pa.record_batch([t, arrow.decode_texts(size.view(">i4"), names), content], schema=_SCHEMA))
    snapshot.connection.execute("SET LOCAL enable_seqscan = DEFAULT")
    whole = pa.concat_tables([_SCHEMA.empty_table(), pa.Table.from_batches(batches, _SCHEMA)])
    return whole.unify_dictionaries()


def encode_requests(table: pa.Table, subjects: arrow.TextCodes) -> Requests:
    """Put codes for the texts of what was read."""
    contents = arrow.TextCodes.from_column(table["content"])
    return Requests(
        subject=subjects.encode(table["subject"]),
        t=arrow.convert_to_numbers(table["t"]),
        content=contents.encode(table["content"]),
        contents=tuple(contents.texts.to_pylist()),
    )
