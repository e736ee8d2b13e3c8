"""The Arrow layout of batches: types, shapes and text. No Arrow library is needed here."""
