"""The output of commands: formats and fields."""
