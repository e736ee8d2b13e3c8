"""What is compiled from src/: works on memory only, knows no files, no sockets; a ``.pyi`` each."""
