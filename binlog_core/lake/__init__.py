"""Changes as rows and tables of a lake; without a JVM."""
