"""Tables: columns, types, character sets, and the TABLE_MAP event that describes them."""
