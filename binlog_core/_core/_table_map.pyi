from typing_extensions import Buffer

class TableMap:
    database: bytes
    table: bytes
    column_types: bytes
    column_metadata: list[bytes]
    null_bits: bytes | None
    signedness: bytes | None
    default_charset: tuple[int, dict[int, int]] | None
    column_charset: list[int] | None
    column_names: list[bytes] | None
    set_members: list[list[bytes]] | None
    enum_members: list[list[bytes]] | None
    geometry_types: list[int] | None
    primary_key: list[tuple[int, int]] | None
    enum_and_set_default_charset: tuple[int, dict[int, int]] | None
    enum_and_set_column_charset: list[int] | None
    column_visibility: bytes | None
    vector_dimensionality: list[int] | None
    unknown_fields: list[int]

def decode_table_name(data: Buffer) -> tuple[bytes, bytes, bytes]: ...
def decode_table_map(data: Buffer) -> TableMap: ...
